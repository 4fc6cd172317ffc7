package gateway

import (
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Consumer is a developer or an application that uses upstream services. Source: requirement
// "Consumer".
type Consumer struct {
	Username string   `json:"username,omitempty" jsonschema:"maxLength=512" jsonschema_extras:"x-unique=true,x-check=header"`
	CustomID string   `json:"custom_id,omitempty" jsonschema:"maxLength=512" jsonschema_extras:"x-unique=true,x-check=header"`
	Tags     []string `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true,x-each-check=tag"`
}

// Consumers is the kind of consumers. Times are in milliseconds.
// Source: requirement "Consumer".
var Consumers = rules.Describe(Consumer{}, model.Kind{
	Name: "consumer", Path: "consumers", Scoping: model.ControlPlane, Class: model.Credential,
	Announce: model.AnnounceAll,
	Guards: []model.Guard{{
		By: Plugins, Index: IndexAnonymous, Field: "config.anonymous",
		Texts: func(r *model.Resource) []string {
			return append(one(r.Spec.(*Consumer).Username), r.Name)
		},
	}},
	Schema: &model.Schema{
		Key: "username", CreatedUnit: time.Millisecond, Updated: true,
		Checks: []model.Check{{Fields: []string{"username", "custom_id"}, Run: consumerNamed}},
	},
})

func consumerNamed(w *model.Write) []fault.Violation {
	if w.New["username"] != nil || w.New["custom_id"] != nil {
		return nil
	}
	text := "at least one of these fields must be non-empty: 'custom_id', 'username'"
	if w.Op == model.OpPatch {
		text = "when updating, " + text
	}
	return entityViolation(text)
}
