package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

func testCRUD(t *testing.T, open Open) {
	s := one(t, open)
	before := time.Now().Add(-time.Millisecond)
	created := time.Date(2001, 2, 3, 4, 5, 6, 789_000, time.FixedZone("", 3600))
	var stored *model.Resource
	must(t, s, func(tx store.Tx) (err error) {
		r := res(Box, "a", Item{Label: "L", N: 1})
		r.Created = created
		stored, err = tx.Create(r)
		return err
	})
	want := &model.Resource{Kind: Box, Scope: "s", Name: "a", Version: 1, Revision: 1, Created: created.UTC(), CreatedRevision: 1, Spec: &Item{Label: "L", N: 1}}
	same := cmp.Options{cmp.Comparer(func(a, b *model.Kind) bool { return a == b }), cmpopts.IgnoreFields(model.Resource{}, "Modified", "Order")}
	for from, got := range map[string]*model.Resource{"Create": stored, "Get": get(t, s, Box, "a")} {
		if diff := cmp.Diff(want, got, same); diff != "" {
			t.Errorf("%s (-want +got):\n%s", from, diff)
		}
		if got.Modified.Before(before) || got.Modified.After(time.Now()) {
			t.Errorf("%s: modified %v", from, got.Modified)
		}
	}
	must(t, s, func(tx store.Tx) (err error) {
		stored, err = tx.Update(res(Box, "a", Item{N: 2}), 0)
		return err
	})
	want.Version, want.Revision, want.Spec = 2, 2, &Item{N: 2}
	if diff := cmp.Diff(want, get(t, s, Box, "a"), same); diff != "" {
		t.Errorf("after update (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(get(t, s, Box, "a"), stored, cmp.Comparer(func(a, b *model.Kind) bool { return a == b })); diff != "" {
		t.Errorf("Update returned something else than Get (-get +update):\n%s", diff)
	}
	for _, other := range []*model.Resource{{Kind: Box, Scope: "t", Name: "a"}, {Kind: Thing, Scope: "s", Name: "a"}} {
		view(t, s, func(r store.Reader) error {
			_, err := r.Get(other.Kind, other.Scope, other.Name)
			wantCode(t, err, fault.NotFound)
			return nil
		})
	}
	if _, err := remove(bounded(t), s, Box, "a"); err != nil {
		t.Fatal(err)
	}
	if r := get(t, s, Box, "a"); r != nil {
		t.Errorf("still there: %+v", r)
	}
	must(t, s, func(tx store.Tx) error {
		_, err := tx.Update(res(Box, "a", Item{}), 0)
		wantCode(t, err, fault.NotFound)
		wantCode(t, tx.Delete(Box, "s", "a", 0), fault.NotFound)
		return nil
	})
}

func testVersions(t *testing.T, open Open) {
	s := one(t, open)
	create(t, s, res(Box, "a", Item{}))
	must(t, s, func(tx store.Tx) error {
		_, err := tx.Create(res(Box, "a", Item{}))
		wantCode(t, err, fault.Exists)
		_, err = tx.Update(res(Box, "a", Item{}), 2)
		wantCode(t, err, fault.Conflict)
		wantCode(t, tx.Delete(Box, "s", "a", 7), fault.Conflict)
		r, err := tx.Update(res(Box, "a", Item{N: 1}), 1)
		if err != nil || r.Version != 2 {
			t.Errorf("Update at the right version: %+v, %v", r, err)
		}
		_, err = tx.Update(res(Box, "a", Item{}), 1)
		wantCode(t, err, fault.Conflict)
		return tx.Delete(Box, "s", "a", 2)
	})
	if r := get(t, s, Box, "a"); r != nil {
		t.Errorf("still there: %+v", r)
	}
}

func testUnique(t *testing.T, open Open) {
	s := one(t, open)
	create(t, s, res(Box, "a", Item{Label: "L"}), res(Box, "b", Item{Label: "M"}), res(Box, "c", Item{}), res(Box, "d", Item{}),
		res(Badge, "a", Item{Secret: "hush"}))
	create(t, s, &model.Resource{Kind: Box, Scope: "other", Name: "x", Spec: &Item{Label: "L"}})
	must(t, s, func(tx store.Tx) error {
		taken := store.UniqueViolation{Kind: Box, Index: "label", Value: "L"}
		_, err := tx.Create(res(Box, "e", Item{Label: "L"}))
		wantSubject(t, err, fault.Unique, taken)
		_, err = tx.Update(res(Box, "b", Item{Label: "L"}), 0)
		wantSubject(t, err, fault.Unique, taken)
		_, err = tx.Create(res(Badge, "b", Item{Secret: "hush"}))
		wantSubject(t, err, fault.Unique, store.UniqueViolation{Kind: Badge, Index: "secret", Value: "hush"})
		// The refused writes left nothing, and a value that was given up can be used again.
		if _, err := tx.Get(Box, "s", "e"); !fault.Is(err, fault.NotFound) {
			t.Errorf("refused resource: %v", err)
		}
		if _, err := tx.Update(res(Box, "a", Item{Label: "N"}), 0); err != nil {
			return err
		}
		_, err = tx.Update(res(Box, "b", Item{Label: "L"}), 0)
		return err
	})
	view(t, s, func(r store.Reader) error {
		for label, want := range map[string]string{"L": "b", "N": "a"} {
			if got, err := r.Find(Box, "s", "label", label); err != nil || got.Name != want {
				t.Errorf("Find %s = %+v, %v", label, got, err)
			}
		}
		if got, err := r.Find(Badge, "s", "secret", "hush"); err != nil || got.Name != "a" || got.Spec.(*Item).Secret != "hush" {
			t.Errorf("Find by secret = %+v, %v", got, err)
		}
		_, err := r.Find(Box, "s", "label", "M")
		wantCode(t, err, fault.NotFound)
		_, err = r.Find(Box, "s", "tags", "M")
		wantCode(t, err, fault.Internal)
		return nil
	})
}

func testDangling(t *testing.T, open Open) {
	s := one(t, open)
	create(t, s, res(Box, "a", Item{}))
	create(t, s, &model.Resource{Kind: Box, Scope: "other", Name: "b", Spec: &Item{}})
	must(t, s, func(tx store.Tx) error {
		_, err := tx.Create(res(Thing, "t", Item{Box: "b"}))
		wantSubject(t, err, fault.Dangling, store.DanglingReference{Kind: Thing, Ref: "box", To: model.Key{Kind: "box", Scope: "s", Name: "b"}})
		if _, err = tx.Create(res(Thing, "t", Item{Box: "a"})); err != nil {
			return err
		}
		_, err = tx.Update(res(Thing, "t", Item{Box: "a", Parent: "none"}), 0)
		wantSubject(t, err, fault.Dangling, store.DanglingReference{Kind: Thing, Ref: "parent", To: model.Key{Kind: "thing", Scope: "s", Name: "none"}})
		_, err = tx.Update(res(Thing, "t", Item{N: 1}), 1)
		return err
	})
	if _, err := remove(bounded(t), s, Box, "a"); err != nil {
		t.Errorf("deleting what is no longer referenced: %v", err)
	}
}

func testCascade(t *testing.T, open Open) {
	s := one(t, open)
	create(t, s, res(Box, "box", Item{}),
		res(Thing, "root", Item{}), res(Thing, "b", Item{Parent: "root"}), res(Thing, "a", Item{Parent: "root", Box: "box"}),
		res(Thing, "aa", Item{Parent: "a"}), res(Thing, "other", Item{}))
	rev := s.Revision()
	_, err := remove(bounded(t), s, Box, "box")
	wantSubject(t, err, fault.Referenced, store.StillReferenced{Key: model.Key{Kind: "box", Scope: "s", Name: "box"}, By: "thing"})
	if s.Revision() != rev {
		t.Error("a refused deletion took a revision")
	}
	c, err := remove(bounded(t), s, Thing, "root")
	if err != nil {
		t.Fatal(err)
	}
	var gone []string
	for _, ch := range c.Changes {
		if ch.Op != store.Deleted || ch.New != nil {
			t.Errorf("change %+v", ch)
		}
		gone = append(gone, ch.Old.Name)
	}
	if last := gone[len(gone)-1]; last != "root" {
		t.Errorf("the last to go is %s", last)
	}
	slices.Sort(gone)
	if diff := cmp.Diff([]string{"a", "aa", "b", "root"}, gone); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
	view(t, s, func(r store.Reader) error {
		left, err := r.List(Thing, store.Query{Scope: "s"})
		if diff := cmp.Diff([]string{"other"}, names(left)); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		return err
	})
	if _, err := remove(bounded(t), s, Box, "box"); err != nil {
		t.Errorf("after its referrer went: %v", err)
	}
}

func testCascadeClass(t *testing.T, open Open) {
	s := one(t, open)
	create(t, s, res(Person, "p", Item{}), res(Thing, "t", Item{Person: "p"}), res(Badge, "b", Item{Person: "p"}))
	c, err := s.Update(bounded(t), model.Credential, func(tx store.Tx) error { return tx.Delete(Person, "s", "p", 0) })
	if err != nil || len(c.Changes) != 3 {
		t.Fatalf("%+v, %v", c, err)
	}
	if get(t, s, Thing, "t") != nil || get(t, s, Badge, "b") != nil {
		t.Error("referrers are left")
	}
}

func testClasses(t *testing.T, open Open) {
	s := one(t, open)
	status := &model.Kind{Name: "status", Class: model.Status, New: newItem}
	_, err := s.Update(bounded(t), model.Credential, func(tx store.Tx) error {
		_, err := tx.Create(res(Box, "a", Item{}))
		return err
	})
	wantCode(t, err, fault.Internal)
	_, err = s.Update(bounded(t), model.Status, func(store.Tx) error { return nil })
	wantCode(t, err, fault.Internal)
	must(t, s, func(tx store.Tx) error {
		_, err := tx.Create(res(status, "a", Item{}))
		wantCode(t, err, fault.Internal)
		_, err = tx.Get(status, "s", "a")
		wantCode(t, err, fault.Internal)
		return nil
	})
}

func testSpecsAreCopies(t *testing.T, open Open) {
	s := one(t, open)
	spec := &Item{Tags: []string{"x"}}
	must(t, s, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: Box, Scope: "s", Name: "a", Spec: spec})
		return err
	})
	spec.Tags[0], spec.N = "changed", 9
	if diff := cmp.Diff(&Item{Tags: []string{"x"}}, get(t, s, Box, "a").Spec); diff != "" {
		t.Errorf("the caller's later changes reached the store:\n%s", diff)
	}
}

func testAtomic(t *testing.T, open Open) {
	s := one(t, open)
	create(t, s, res(Box, "a", Item{Label: "L"}))
	boom := errors.New("boom")
	_, err := s.Update(bounded(t), model.Config, func(tx store.Tx) error {
		if _, err := tx.Create(res(Box, "b", Item{Label: "M"})); err != nil {
			return err
		}
		if err := tx.Delete(Box, "s", "a", 0); err != nil {
			return err
		}
		if n, err := tx.Count(Box, store.Query{Scope: "s"}); n != 1 || err != nil {
			t.Errorf("the transaction does not see its own writes: %d, %v", n, err)
		}
		if len(tx.Changes()) != 2 {
			t.Errorf("changes: %+v", tx.Changes())
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("error %v is not the function's", err)
	}
	if get(t, s, Box, "a") == nil || get(t, s, Box, "b") != nil || s.Revision() != 1 {
		t.Error("the failed transaction left something")
	}
	create(t, s, res(Box, "b", Item{Label: "M"}))
}

func testPanic(t *testing.T, open Open) {
	s := one(t, open)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not reach the caller")
			}
		}()
		_, _ = s.Update(bounded(t), model.Config, func(tx store.Tx) error {
			if _, err := tx.Create(res(Box, "a", Item{})); err != nil {
				return err
			}
			panic("boom")
		})
	}()
	left := make(chan struct{})
	go func() { // a function may also leave by Goexit, as t.FailNow does
		defer close(left)
		_, _ = s.Update(t.Context(), model.Config, func(tx store.Tx) error {
			_, _ = tx.Create(res(Box, "a", Item{}))
			exit()
			return nil
		})
	}()
	<-left
	if get(t, s, Box, "a") != nil {
		t.Error("the panicking transaction left something")
	}
	create(t, s, res(Box, "a", Item{}))
}

func testEnded(t *testing.T, open Open) {
	s := one(t, open)
	var tx store.Tx
	var rd store.Reader
	must(t, s, func(kept store.Tx) error { tx = kept; return nil })
	view(t, s, func(kept store.Reader) error { rd = kept; return nil })
	_, err := tx.Create(res(Box, "a", Item{}))
	wantCode(t, err, fault.Internal)
	_, err = rd.Get(Box, "s", "a")
	wantCode(t, err, fault.Internal)
}

func testGateway(t *testing.T, open Open) {
	s := one(t, open)
	put := func(k *model.Kind, name string, spec any) *model.Resource {
		return &model.Resource{Kind: k, Scope: model.DefaultControlPlane, Name: name, Spec: spec}
	}
	create(t, s,
		put(gateway.Services, "svc", &gateway.Service{Name: "orders"}),
		put(gateway.Routes, "rt", &gateway.Route{Service: "svc"}),
		put(gateway.Plugins, "pl", &gateway.Plugin{Name: "oauth2", Route: "rt", Config: []byte(`{"scopes": ["a"]}`)}),
		put(gateway.Consumers, "con", &gateway.Consumer{Username: "ann"}),
		put(gateway.Applications, "app", &gateway.Application{Consumer: "con", ClientID: "id", ClientSecret: "sec"}),
		put(gateway.Tokens, "tok", &gateway.Token{Credential: "app", Service: "svc", AccessToken: "at"}))
	must(t, s, func(tx store.Tx) error {
		_, err := tx.Create(put(gateway.Plugins, "pl2", &gateway.Plugin{Name: "oauth2", Route: "rt", Config: []byte(`{}`)}))
		wantCode(t, err, fault.Unique)
		_, err = tx.Create(put(gateway.Applications, "app2", &gateway.Application{Consumer: "con", ClientID: "id2", ClientSecret: "sec"}))
		wantCode(t, err, fault.Unique)
		wantCode(t, tx.Delete(gateway.Services, model.DefaultControlPlane, "svc", 0), fault.Referenced)
		return tx.Delete(gateway.Consumers, model.DefaultControlPlane, "con", 0)
	})
	view(t, s, func(r store.Reader) error {
		_, err := r.Find(gateway.Tokens, model.DefaultControlPlane, gateway.IndexAccessToken, gateway.TokenKey("at"))
		wantCode(t, err, fault.NotFound)
		pl, err := r.Get(gateway.Plugins, model.DefaultControlPlane, "pl")
		if err == nil && string(pl.Spec.(*gateway.Plugin).Config) != `{"scopes":["a"]}` {
			t.Errorf("config %s", pl.Spec.(*gateway.Plugin).Config)
		}
		return err
	})
}
