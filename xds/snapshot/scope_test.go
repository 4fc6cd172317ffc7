package snapshot_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// announce publishes one node of a scope.
func announce(st *snapshot.Store, scope, node, body string, rev uint64) {
	st.Announce(snapshot.Publication{Scope: scope, Sets: map[string]*resource.Set{node: set(body)}, Revision: rev})
}

// A scope that makes no progress delays the accounts that include it, and no others.
func TestScopesAreJudgedAlone(t *testing.T) {
	st := snapshot.New()
	announce(st, "mesh/sick", "sick.a", "1", 3)
	announce(st, "mesh/well", "well.a", "1", 3)
	st.Subscribe("sick.a")
	well := st.Subscribe("well.a")
	announce(st, "mesh/well", "well.a", "2", 9)
	well.Confirm(well.State())
	if p := st.Progress(9, "mesh/well"); !p.Done() || p.Published != 9 || !cmp.Equal(p.Acknowledged, []string{"well.a"}) {
		t.Errorf("the well scope: %+v", p)
	}
	if p := st.Progress(9, "mesh/well", "mesh/sick"); p.Done() || p.Published != 3 {
		t.Errorf("both: %+v", p)
	}
	if p := st.Progress(9, "mesh/unknown"); !p.Done() || p.Published != 9 || len(p.Acknowledged) != 0 {
		t.Errorf("a scope without nodes: %+v", p)
	}
	if p := st.Progress(9, []string{}...); !p.Done() {
		t.Errorf("no scope: %+v", p)
	}
	if p := st.Progress(9); p.Done() || p.Published != 3 || st.Published() != 3 {
		t.Errorf("all: %+v", p)
	}
	st.End("mesh/sick")
	if p := st.Progress(9, "mesh/well", "mesh/sick"); p.Published != 9 {
		t.Errorf("after the end of the sick one: %+v", p)
	}
}

// A scope that has no nodes of its own counts where it is named, and does not hold up the account of all:
// what it lacks may be of no concern to any node.
func TestPartsCountWhereTheyAreNamed(t *testing.T) {
	st := snapshot.New()
	part := func(revision uint64) {
		st.Announce(snapshot.Publication{Scope: "egress/m", Revision: revision, Part: true})
	}
	part(0)
	if p := st.Progress(9); p.Published != 0 || st.Published() != 0 || p.Done() {
		t.Errorf("a part alone: %+v", p)
	}
	announce(st, "zone", "zone.a", "1", 9)
	a := st.Subscribe("zone.a")
	a.Confirm(a.State())
	for _, revision := range []uint64{0, 3} {
		part(revision)
		if p := st.Progress(9); !p.Done() || p.Published != 9 || st.Published() != 9 || !cmp.Equal(st.Settled(9, nil, nil), []string{"zone.a"}) {
			t.Errorf("all: %+v", p)
		}
		if p := st.Progress(9, "zone", "egress/m"); p.Done() || p.Published != revision {
			t.Errorf("the part is named: %+v", p)
		}
		if shown, known := st.Shown("egress/m"); !known || shown != revision {
			t.Errorf("the part shows %d, %t", shown, known)
		}
		if settled := st.Settled(9, []string{"zone", "egress/m"}, nil); len(settled) != 0 {
			t.Errorf("%v have what the part does not show", settled)
		}
	}
}

// A set may show several revisions at once. It is waited for under each of them, including the
// older ones: a proxy that lacks the set has none of them.
func TestEveryRevisionOfASetIsWaitedFor(t *testing.T) {
	st := snapshot.New()
	a := st.Subscribe("m.a")
	announce(st, "mesh/m", "m.a", "1", 3)
	a.Confirm(a.State())
	announce(st, "mesh/m", "m.a", "2", 7) // made of the writes 4 to 7
	for rev := uint64(4); rev <= 7; rev++ {
		if p := st.Progress(rev, "mesh/m"); !cmp.Equal(p.Waiting, []string{"m.a"}) {
			t.Errorf("revision %d: %+v", rev, p)
		}
	}
	if p := st.Progress(3, "mesh/m"); !p.Done() {
		t.Errorf("revision 3: %+v", p)
	}
	// Content from another scope may be older than the scope's own revision.
	a.Confirm(a.State())
	st.Announce(snapshot.Publication{Scope: "mesh/m", Sets: map[string]*resource.Set{"m.a": set("3")}, Revision: 9, Since: 5})
	if p := st.Progress(5, "mesh/m"); len(p.Waiting) != 1 {
		t.Errorf("a change since revision 5: %+v", p)
	}
}

// A scope may show a new revision and still lack an older one.
func TestWhatAScopeLacksIsNotShown(t *testing.T) {
	st := snapshot.New()
	announce(st, "mesh/m", "m.a", "1", 9)
	st.Announce(snapshot.Publication{Scope: "mesh/m", Revision: 9, Lacks: 6})
	if st.Progress(6, "mesh/m").Done() || st.Progress(9, "mesh/m").Done() || !st.Progress(5, "mesh/m").Done() {
		t.Error("what is lacking counts as shown")
	}
	st.Announce(snapshot.Publication{Scope: "mesh/m", Revision: 9})
	if !st.Progress(9, "mesh/m").Done() {
		t.Error("what was lacking is not shown")
	}
}
