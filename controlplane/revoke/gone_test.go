package revoke

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/filter/contract"
)

// A gateway that vanished before it heard of another Redis keeps every revocation
// unconfirmed for a day, unless an operator declares it gone for good. This applies to one
// node, and no filter of it may be linked.
func TestGoneForGood(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		first, second := w.mint("a", false), w.mint("b", false)
		lost, _ := w.pipe("cp/default/lost", contract.Hello{Instance: "i"})
		lost.cut()
		w.settles(t)
		redis.stand("run-2")
		w.settles(t)
		_, err := took(t, async(func() error { return w.delete(first) }))
		says(t, err, "cp/default/lost")
		here, _ := w.pipe("cp/default/here", contract.Hello{Instance: "i"})
		want := map[string]Filters{"cp/default/lost": {Known: 1}, "cp/default/here": {Known: 1, Linked: 1}}
		if diff := cmp.Diff(want, w.r.Filters()); diff != "" {
			t.Error(diff)
		}
		if err := w.r.Gone("cp/default/here"); !fault.Is(err, fault.Conflict) || !w.r.Remembers("cp/default/here") {
			t.Errorf("one that is linked: %v", err)
		}
		if err := w.r.Gone(""); err != nil || w.r.Stats().KnownFilters != 2 {
			t.Errorf("nobody: %v", err)
		}
		if err := w.r.Gone("cp/default/lost"); err != nil || w.r.Remembers("cp/default/lost") || w.rows() != 1 {
			t.Errorf("%v, %d rows", err, w.rows())
		}
		here.cut()
		if err := w.r.Gone("cp/default/here"); err != nil || w.rows() != 0 {
			t.Errorf("after it left: %v, %d rows", err, w.rows())
		}
		if err := w.r.Settle(t.Context()); err != nil {
			t.Errorf("what was unconfirmed: %v", err)
		}
		if err := w.delete(second); err != nil {
			t.Errorf("another revocation: %v", err)
		}
	})
}

// Beyond the bound of a node, several of its filters are remembered as one group. Gone
// forgets the group with the node, and nothing of other nodes.
func TestGoneWithThoseBeyondTheBound(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, _ *scripted) {
		w.quotas(8, 2)
		for _, i := range []string{"1", "2", "3", "4"} {
			f, _ := w.pipe("cp/default/lost", contract.Hello{Instance: i})
			f.cut()
		}
		other, _ := w.pipe("cp/default/lost-too", contract.Hello{Instance: "1"})
		other.cut()
		if err := w.r.Gone("cp/default/lost"); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(map[string]Filters{"cp/default/lost-too": {Known: 1}}, w.r.Filters()); diff != "" {
			t.Error(diff)
		}
	})
}

// A filter that was declared gone and comes back is new. Whatever it claims to have applied
// of the log, it starts anew, without a lease and without what it remembered.
func TestGoneAndBack(t *testing.T) {
	for name, gone := range map[string]bool{"it was cut off": false, "it was said to be gone": true} {
		t.Run(name, func(t *testing.T) {
			virtually(t, nil, func(t *testing.T, w *world, _ *scripted) {
				token := w.mint("a", false)
				f, first := w.pipe("node", contract.Hello{Instance: "i"})
				f.lease()
				if err := w.delete(token); err != nil {
					t.Error(err)
				}
				at := w.r.history.at
				f.cut()
				if gone {
					if err := w.r.Gone("node"); err != nil {
						t.Fatal(err)
					}
				}
				_, again := w.pipe("node", contract.Hello{Instance: "i", Log: first.Log, Applied: at})
				if anew := again.From == 0; anew != gone {
					t.Errorf("welcomed from %d of %d", again.From, at)
				}
			})
		})
	}
}
