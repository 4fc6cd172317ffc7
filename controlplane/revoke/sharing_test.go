package revoke

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

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
		s := o.Subjects[gateway.Applications]
		s.Shown = []string{gateway.IndexClientID}
		o.Subjects[gateway.Applications] = s
		s = o.Subjects[gateway.Consumers]
		s.Shown = []string{"", gateway.IndexUsername, gateway.IndexCustomID}
		o.Subjects[gateway.Consumers] = s
		o.Subjects[gateway.Keys] = Subject{
			Is: contract.SubjectToken, Shown: []string{""},
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
		w.voids(name, nil, &model.Resource{Kind: tc.k, Scope: tc.scope, Name: tc.id, Spec: tc.spec})
	}
}

// TestWhatCountsNoLongerIsReadAnew: of keys between which nothing was announced, the older one
// counts, also if it is written later. What is known of the other is void then, in groups of
// which both are members.
func TestWhatCountsNoLongerIsReadAnew(t *testing.T) {
	t.Parallel()
	w := sharing(t)
	w.must(func(tx store.Tx) error { // the revision from which on nothing is announced
		_, err := tx.Create(&model.Resource{Kind: gateway.Consumers, Scope: "b", Name: "more", Spec: &gateway.Consumer{Username: "more"}})
		return err
	})
	key := func(scope, consumer, value string, created time.Time) *model.Resource {
		return &model.Resource{Kind: gateway.Keys, Scope: scope, Name: "late", Created: created, Spec: &gateway.Key{Consumer: consumer, Key: value}}
	}
	w.voids("the first one", nil, key("b", "other", "of b", time.Time{}))
	w.voids("of no group", nil, key("c", "third", "of c", time.Unix(1, 0)))
	w.voids("one that is older", []contract.Invalidation{{Subject: contract.SubjectToken, Token: contract.HashKey([]byte("of b"))}},
		key("a", "person", "of a", time.Unix(1, 0)))
}

// voids demands what a creation has everybody read anew, all of it in b.
func (w *world) voids(name string, want []contract.Invalidation, res *model.Resource) {
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
	var got []contract.Invalidation
	for _, e := range entries {
		if e.inv.Revision != c.Revision || e.scope != "b" {
			w.t.Errorf("%s: %+v at revision %d", name, e, c.Revision)
		}
		e.inv.Revision = 0
		got = append(got, e.inv)
	}
	if diff := cmp.Diff(want, got); diff != "" || revokes {
		w.t.Errorf("%s, promised: %t (-want +got):\n%s", name, revokes, diff)
	}
	if err := publish(w.t.Context(), c); err != nil {
		w.t.Error(name, err)
	}
}

// TestSinceWhenAGroupStands: every change of the members has filters of the group begin anew,
// also where they are the same after several; and it is known of a group that had no filter.
func TestSinceWhenAGroupStands(t *testing.T) {
	t.Parallel()
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
}
