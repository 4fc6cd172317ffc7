package changes_test

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TestActorOfAQuery: an actor is named with its kind or without. Holders of personal access tokens are users,
// and their names begin like the kinds of others. Whoever looks for such a name finds both.
func TestActorOfAQuery(t *testing.T) {
	for text, want := range map[string]store.RecordQuery{
		"ann":                {Actor: "ann"},
		"mesh-system:admin":  {Actor: "mesh-system:admin"},
		"user:ann":           {ActorKind: model.ActorUser, Actor: "ann"},
		"user:token:ci":      {ActorKind: model.ActorUser, Actor: "token:ci"},
		"node:default.web":   {ActorKind: model.ActorNode, Actor: "default.web"},
		"token:ci":           {ActorKind: model.ActorToken, Actor: "ci", User: "token:ci"},
		"system:rotation":    {ActorKind: model.ActorSystem, Actor: "rotation", User: "system:rotation"},
		"token:":             {ActorKind: model.ActorToken},
		"token:node:default": {ActorKind: model.ActorToken, Actor: "node:default", User: "token:node:default"},
	} {
		got, err := changes.Parse(url.Values{changes.ParamActor: {text}}, nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}
