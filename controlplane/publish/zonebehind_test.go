package publish

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// keeping is a planner of egresses that keep what they have of some meshes.
type keeping struct {
	zonePlanner
	set    *resource.Set
	behind []string
	err    error
	panics bool
	// trips are the ports with which it panics.
	trips []uint32
}

func (*keeping) Update(*view.Zone)   {}
func (*keeping) Failures() []failure { return nil }
func (k *keeping) Behind() []string  { return k.behind }
func (k *keeping) Set(_ string, port uint32) (*resource.Set, error) {
	if k.panics || slices.Contains(k.trips, port) {
		panic("a mistake")
	}
	return k.set, k.err
}

// left is a zone with an egress, through which meshes are left.
type left struct {
	*testing.T
	db    store.Store
	loop  *Loop
	snaps *snapshot.Store
}

const leftBy = "zone/egress/out"

// next changes what egresses are to have, and something in the zone. It returns the revision of that,
// which the zone shows.
func (l *left) next(k *keeping) uint64 {
	l.Helper()
	p := l.loop.openedZone()
	p.mu.Lock()
	p.planners[mesh.ProxyEgress] = k
	p.mu.Unlock()
	revision := storetest.Put(l.T, l.db, mesh.Meshes, "", "bank", &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: "builtin"}}}})
	if err := l.loop.Settled(l.Context(), revision); err != nil {
		l.Fatal(err)
	}
	return revision
}

// shows holds what egresses have of two meshes against a revision: by whether they show it, and whether
// the one that is there has confirmed it.
func (l *left) shows(what string, revision uint64, bank, shop, confirmed bool) {
	l.Helper()
	for name, want := range map[string]bool{"bank": bank, "shop": shop} {
		all := true
		for _, scope := range []string{ZoneScope, EgressesScope, EgressScope(name)} {
			shown, known := l.snaps.Shown(scope)
			all = all && (!known || shown >= revision)
		}
		if all != want {
			l.Errorf("%s: egresses show revision %d of %s: %t", what, revision, name, all)
		}
		settled := l.snaps.Settled(revision, []string{ZoneScope, EgressesScope, EgressScope(name)}, nil)
		if slices.Contains(settled, leftBy) != (want && confirmed) {
			l.Errorf("%s: of %s %v have confirmed revision %d", what, name, settled, revision)
		}
	}
}

// until waits until something holds, and fails with a text if it does not.
func (l *left) until(otherwise string, holds func() bool) {
	l.Helper()
	late, cancel := context.WithTimeout(l.Context(), time.Minute)
	defer cancel()
	for {
		moved := l.snaps.Moved()
		if holds() {
			return
		}
		select {
		case <-moved:
		case <-late.Done():
			l.Fatal(otherwise)
		}
	}
}

// TestEgressesShowNothingNewOfWhatTheyKeep: a mesh that cannot be planned at egresses does not show what
// the zone shows, and no other mesh is concerned. When it is planned again, the set that comes is that of
// all the revisions that were not shown: who has not confirmed it has none of them.
func TestEgressesShowNothingNewOfWhatTheyKeep(t *testing.T) {
	db, snaps := memstore.New(), snapshot.New()
	l := &left{t, db, Begin(t, db, Options{Publisher: snaps}, nil), snaps}
	storetest.Put(t, db, mesh.ZoneEgresses, "", "out", &mesh.ZoneEgress{Networking: &mesh.ZoneEgressNetworking{Address: "127.0.0.1", Port: 2}})
	release, err := l.loop.Connect(t.Context(), leftBy, false)
	if err != nil {
		t.Fatal(err)
	}
	sub := snaps.Subscribe(leftBy)
	defer sub.Close()
	of := func(roots string) *resource.Set {
		return resource.NewSet([]*resource.Resource{resource.New(resource.Secret, mesh.SecretCA("bank"), []byte(roots))}, nil)
	}
	confirm := func() { sub.Confirm(sub.State()) }
	first := l.next(&keeping{set: of("old")})
	confirm()
	l.shows("at the start", first, true, true, true)

	second := l.next(&keeping{set: of("old"), behind: []string{"bank"}})
	confirm()
	l.shows("with a mesh that is not planned", second, false, true, true)
	l.until("what egresses keep holds up the account of all scopes", func() bool { return snaps.Published() >= second })
	l.shows("what was there before", first, true, true, true)
	third := l.next(&keeping{set: of("old"), behind: []string{"bank"}})
	confirm()
	l.shows("with the next change", third, false, true, true)

	l.next(&keeping{set: of("new")})
	l.shows("when it is planned, and not confirmed", second, true, true, false)
	confirm()
	l.shows("when it is confirmed", third, true, true, true)
	if _, known := snaps.Shown(EgressScope("bank")); known {
		t.Error("a scope is left over")
	}

	fifth := l.next(&keeping{err: errors.New("it cannot listen there")})
	confirm()
	l.shows("an egress that keeps everything", fifth, false, false, true)
	l.shows("one of which the set panics", l.next(&keeping{panics: true}), false, false, true)
	release()
	l.until("an egress that is gone keeps something", func() bool { // a round of the zone follows
		_, known := snaps.Shown(EgressesScope)
		return !known
	})
}

// TestLateSetsAreDatedBack: a proxy of the zone of which making the set panicked has confirmed none of the revisions
// that it lacked before it has confirmed the set that comes in the end, whoever else still lacks something.
func TestLateSetsAreDatedBack(t *testing.T) {
	const first, second, in = "zone/egress/out", "zone/egress/over", "zone/ingress/in"
	db, snaps := memstore.New(), snapshot.New()
	l := &left{t, db, Begin(t, db, Options{Publisher: snaps}, nil), snaps}
	for port, name := range []string{"", "", "out", "over"} {
		if name != "" {
			storetest.Put(t, db, mesh.ZoneEgresses, "", name, &mesh.ZoneEgress{Networking: &mesh.ZoneEgressNetworking{Address: "127.0.0.1", Port: uint32(port)}})
		}
	}
	storetest.Put(t, db, mesh.ZoneIngresses, "", "in", &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Address: "127.0.0.1", Port: 4}})
	subs := map[string]*snapshot.Subscription{}
	for _, id := range []string{first, second, in} {
		release, err := l.loop.Connect(t.Context(), id, false)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		subs[id] = snaps.Subscribe(id)
		defer subs[id].Close()
	}
	of := func(roots string, trips ...uint32) *keeping {
		return &keeping{trips: trips, set: resource.NewSet([]*resource.Resource{resource.New(resource.Secret, mesh.SecretCA("bank"), []byte(roots))}, nil)}
	}
	ingresses := func(k *keeping) {
		p := l.loop.openedZone()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.planners[mesh.ProxyIngress] = k
	}
	confirm := func(ids ...string) {
		for _, id := range ids {
			subs[id].Confirm(subs[id].State())
		}
	}
	confirmed := func(what string, revision uint64, scopes []string, want ...string) {
		t.Helper()
		got := snaps.Settled(revision, scopes, nil)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v have confirmed revision %d, not %v", what, got, revision, want)
		}
	}
	egresses, zone := []string{ZoneScope, EgressesScope}, []string{ZoneScope}

	ingresses(of("old"))
	l.next(of("old"))
	confirm(first, second, in)
	ingresses(of("new", 4))
	lacked := l.next(of("new", 2, 3))
	confirm(first, second, in)
	confirmed("while none can be made", lacked, egresses)
	l.next(of("new", 3))
	ingresses(of("new"))
	l.next(of("new"))
	confirm(second)
	confirmed("when all are made", lacked, egresses, second)
	confirmed("when all are made", lacked, zone, second)
	confirm(first, in)
	confirmed("when all have confirmed", lacked, egresses, first, second, in)
}
