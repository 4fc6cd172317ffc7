package snapshot

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/xds/resource"
)

// An account describes a proxy as a whole. While the proxy has not answered a change, or
// refuses it, the revision of that change is not acknowledged, however new the rest is.
func TestAccount(t *testing.T) {
	s := New()
	account := func() (a Account) {
		a, _ = s.Account("n")
		a.Rejected = nil
		return a
	}
	publish := func(revision uint64, name string) {
		set := resource.NewSet([]*resource.Resource{{Type: resource.Cluster, Name: name, Version: name}}, nil)
		s.Announce(Publication{Scope: "s", Sets: map[string]*resource.Set{"n": set}, Revision: revision})
	}
	if _, ok := s.Account("n"); ok {
		t.Error("a node that is not known has an account")
	}
	if _, ok := s.Shown("s"); ok {
		t.Error("a scope that is not known shows something")
	}
	publish(3, "a")
	sub := s.Subscribe("n")
	check := func(what string, want Account) {
		t.Helper()
		if diff := cmp.Diff(want, account()); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	check("nothing is answered", Account{Desired: 3, Waiting: true})
	sub.Confirm(sub.State())
	check("all is answered", Account{Desired: 3, Acknowledged: 3})
	s.Announce(Publication{Scope: "s", Revision: 7})
	check("a revision that changes nothing", Account{Desired: 7, Acknowledged: 7})
	moves, _ := s.Moves()
	publish(9, "b")
	check("one that changes something", Account{Desired: 9, Acknowledged: 7, Waiting: true})
	if now, _ := s.Moves(); now == moves {
		t.Error("a publication is no event")
	}
	sub.Reject([]Rejection{{Type: resource.Cluster, Resources: []string{"b"}, Error: "no", Revision: 8}})
	sub.Confirm(sub.State())
	check("it is refused", Account{Desired: 9, Acknowledged: 7})
	sub.Reject(nil)
	check("it is corrected", Account{Desired: 9, Acknowledged: 9})
	if shown, ok := s.Shown("s"); !ok || shown != 9 {
		t.Errorf("the scope shows %d", shown)
	}
	sub.Close()
	if _, ok := s.Account("n"); ok {
		t.Error("a node without a stream has an account")
	}
}
