package revoke

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/places"
)

// counting returns a Revoker that only remembers filters, at a time that the test sets.
func counting(now *time.Time, all, node int) *Revoker {
	read := func() time.Time { return *now }
	return &Revoker{
		known: map[string]*known{}, knownOf: map[string]int{}, tally: tally{}, audiences: map[string]*audience{}, places: places.New(places.Limits{All: all}),
		o: Options{Now: read, Clock: taken{read}, MaxNodeLinks: node},
	}
}

// came adds a filter that was linked and lost its link, after it had confirmed everything
// up to covered.
func (r *Revoker) came(node, instance string, covered contract.Position) {
	l := &link{r: r, node: Node{ID: node}, hello: contract.Hello{Instance: instance}}
	k := r.meet(l)
	k.welcomed = true
	r.cover(k, covered)
}

// TestThoseWhoHaveNotHeardEnd: a filter that has left without hearing of the current trust
// is not waited for without end, even if other filters of its node come and go all the
// time.
func TestThoseWhoHaveNotHeardEnd(t *testing.T) {
	now := time.Unix(1<<30, 0)
	for name, node := range map[string]func(i int) string{
		"of one node":      func(int) string { return "n" },
		"of several nodes": func(i int) string { return fmt.Sprint("n", i%20) },
	} {
		r := counting(&now, 8, 4)
		for i := range 30 {
			r.came(node(i), fmt.Sprint("old-", i), 0)
		}
		for i := range 200 {
			now = now.Add(10 * time.Minute)
			r.forgetOld()
			r.came(node(i), fmt.Sprint("new-", i), everything)
		}
		if at := r.tally.lowest(); at != everything {
			t.Errorf("%s: who came up to position %d is waited for after 33 hours", name, at)
		}
	}
}

// TestMergedAgainstOneWhoForgetsNobody: whatever filters come, hear and go, a revocation
// waits as long as a filter that may be alive has not heard, and at most an hour longer.
// What is remembered is bounded.
func TestMergedAgainstOneWhoForgetsNobody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type one struct {
			node    string
			seen    time.Time
			covered contract.Position
		}
		now, all := time.Unix(1<<30, 0), map[string]*one{}
		r := counting(&now, 6, 3)
		waits := func(node string, at contract.Position, grace time.Duration) bool {
			for _, o := range all {
				if (node == "" || o.node == node) && o.covered < at && now.Sub(o.seen) <= contract.RememberFilter+grace {
					return true
				}
			}
			return false
		}
		for i := range rapid.IntRange(1, 150).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 200).Draw(t, "minutes")) * time.Minute)
			r.forgetOld()
			o := &one{node: fmt.Sprint("n", rapid.IntRange(0, 5).Draw(t, "node")), seen: now, covered: contract.Position(rapid.IntRange(0, 5).Draw(t, "covered"))}
			if o.covered == 5 {
				o.covered = everything
			}
			all[fmt.Sprint(i)] = o
			r.came(o.node, fmt.Sprint("i", i), o.covered)
			if len(r.known) > 2*6+int(contract.RememberFilter/time.Hour)+2 {
				t.Fatalf("%d rows", len(r.known))
			}
			for at := range contract.Position(7) {
				for _, node := range []string{"", "n0", "n1"} {
					got := false
					for name, k := range r.known {
						got = got || k.covered < at && (node == "" || nodeOf(name) == node || nodeOf(name) == "")
					}
					if waits(node, at, 0) && !got {
						t.Fatalf("nobody of %q is waited for at position %d", node, at)
					}
					if of := r.audience(unknownOnes); node == "" && (got != (r.tally.lowest() < at) || got != (of.tally.lowest() < at)) {
						t.Fatalf("the tallies say %d and %d", r.tally.lowest(), of.tally.lowest())
					}
					if node == "" && got && !waits(node, at, time.Hour) {
						t.Fatalf("somebody is waited for at position %d", at)
					}
				}
			}
		}
	})
}
