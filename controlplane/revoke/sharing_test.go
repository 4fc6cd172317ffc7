package revoke

import (
	"github.com/google/uuid"
	"testing"
	"testing/synctest"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes/scopestest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// sharing is a world with control planes a and b in a group, and c, which is in none.
func sharing(t *testing.T) *world {
	t.Helper()
	w := newTenantsWith(t, func(o *Options) {
		o.Subjects[gateway.Keys] = Subject{
			Is:      contract.SubjectToken,
			Token:   func(s any) contract.Hash { return contract.HashKey([]byte(s.(*gateway.Key).Key)) },
			Expires: func(*model.Resource) int64 { return 0 },
		}
	}, "a", "b")
	w.must(func(tx store.Tx) error {
		for _, r := range []*model.Resource{
			{Kind: gateway.Consumers, Scope: "a", Name: "person", Spec: &gateway.Consumer{Username: "alice", CustomID: "1"}},
			{Kind: gateway.Applications, Scope: "a", Name: "app", Spec: &gateway.Application{Consumer: "person", ClientID: "shop", ClientSecret: "x"}},
			{Kind: gateway.Keys, Scope: "a", Name: "key", Spec: &gateway.Key{Consumer: "person", Key: "k"}},
			{Kind: gateway.Consumers, Scope: "b", Name: "other", Spec: &gateway.Consumer{Username: "bob"}},
			{Kind: gateway.Consumers, Scope: "c", Name: "third", Spec: &gateway.Consumer{Username: "carl"}},
		} {
			if _, err := tx.Create(r); err != nil {
				return err
			}
		}
		return nil
	})
	return w
}

// TestWhatOthersHadFirstIsNotReadAnew: whoever takes in a group what upstreams are told of
// another member's voids nothing of that one.
func TestWhatOthersHadFirstIsNotReadAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := sharing(t)
		for name, tc := range map[string]struct {
			scope string
			k     *model.Kind
			id    string
			spec  any
		}{
			"client_id":              {"b", gateway.Applications, "", &gateway.Application{Consumer: "other", ClientID: "shop", ClientSecret: "y"}},
			"another client_id":      {"b", gateway.Applications, "", &gateway.Application{Consumer: "other", ClientID: "else", ClientSecret: "z"}},
			"username":               {"b", gateway.Consumers, "", &gateway.Consumer{Username: "alice"}},
			"custom_id":              {"b", gateway.Consumers, "", &gateway.Consumer{Username: "u2", CustomID: "1"}},
			"id of a consumer":       {"b", gateway.Consumers, "person", &gateway.Consumer{Username: "u3"}},
			"id of a key":            {"b", gateway.Keys, "key", &gateway.Key{Consumer: "other", Key: "l"}},
			"client_id, in no group": {"c", gateway.Applications, "", &gateway.Application{Consumer: "third", ClientID: "shop", ClientSecret: "y"}},
		} {
			if tc.id == "" {
				tc.id = uuid.NewString()
			}
			w.voidsNothing(name, &model.Resource{Kind: tc.k, Scope: tc.scope, Name: tc.id, Spec: tc.spec})
		}
	})
}

// voidsNothing demands that nobody reads anything anew because of a creation.
func (w *world) voidsNothing(name string, res *model.Resource) {
	w.t.Helper()
	publish, _ := w.r.Begin()
	c, err := w.commit(func(tx store.Tx) error {
		_, err := tx.Create(res)
		return err
	})
	if err != nil {
		w.t.Fatal(name, err)
	}
	entries, revokes, _ := w.r.published(c)
	if len(entries) > 0 || revokes {
		w.t.Errorf("%s: published are %+v, promised: %t", name, entries, revokes)
	}
	if err := publish(w.t.Context(), c); err != nil {
		w.t.Error(name, err)
	}
}

// TestSinceWhenAGroupStands: every change of the members has filters of the group begin anew,
// also where they are the same after several; and it is known of a group that had no filter.
func TestSinceWhenAGroupStands(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTenants(t, "a", "b")
		f, welcome := w.join("group", contract.Hello{Instance: "i"}, contract.AcceptScopes)
		if welcome.Scopes.Since == 0 {
			t.Error("a group that had no filter stands since ever")
		}
		done := async(func() error {
			return w.write(func(tx store.Tx) error { return scopestest.Set(tx, "group", "a", "b") })
		})
		f.invalidated()
		if s := f.scopes(); s.Since <= welcome.Scopes.Since {
			t.Errorf("told of %+v after %+v", s, welcome.Scopes)
		}
		f.ack(f.invalidated().To)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if _, own := w.join("a", contract.Hello{Instance: "own"}, contract.AcceptScopes); own.Scopes.Since != 0 {
			t.Errorf("a control plane alone is told of %+v", own.Scopes)
		}
	})
}
