package oauth

import (
	"context"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TestRecordsOfRows: what is said of the row of a token or of a key is what is said of it by
// its value, also after it has ended.
func TestRecordsOfRows(t *testing.T) {
	w := newWorld(t, allGrants())
	s := &Source{Store: w.db, Now: w.clock}
	for name, token := range map[string]gateway.Token{
		"plain": {}, "bound": {Service: "s1"}, "of a user": {AuthenticatedUserID: "u", Scope: "read"}, "ending": {ExpiresIn: 60},
		"dropped": {DropAt: w.now.Add(time.Minute).UnixMilli()}, "for ever": {ExpiresIn: 0},
	} {
		token.Credential, token.AccessToken, token.TokenType = "app", name, TokenType
		w.create(&model.Resource{Kind: gateway.Tokens, Scope: scopeName, Name: name, Created: w.now, Spec: &token})
	}
	for _, wait := range []time.Duration{0, time.Minute - time.Millisecond, time.Millisecond, time.Hour} {
		w.now = w.now.Add(wait)
		for _, token := range []string{"plain", "bound", "of a user", "ending", "dropped", "for ever", "none"} {
			SameOfItsRow(t, s, scopeName, token)
		}
	}
	key := &model.Resource{Kind: gateway.Keys, Scope: scopeName, Name: "k", Spec: &gateway.Key{Consumer: "c1", Key: "key"}}
	w.create(key)
	if err := w.db.View(context.Background(), func(r store.Reader) error {
		row, err := r.Get(gateway.Keys, scopeName, "k")
		if err != nil {
			return err
		}
		rec, err := s.Made(r, row)
		if err != nil || rec == nil || !rec.Key || rec.Credential.ID != "k" || rec.Consumer.Username != "alice" {
			t.Errorf("%+v %v", rec, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
