// Package freshness holds the two halves of docs/adr/0003-freshness.md against each
// other: the real Revoker and several real token caches, in one process and in
// virtual time. Between them are a network that holds and cuts what it carries, one
// Redis that a test can damage, and a store that survives the control plane.
package freshness

import (
	"fmt"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ordersPerCheck is how many orders each example of rapid stands for.
const ordersPerCheck = 4

// order is what happens. Failover says that former servers of Redis may live on.
type order struct {
	Failover bool
	Events   []event
}

// evenly draws one of n: each is as likely as the others, which they are not where
// rapid draws a number, and the first is the simplest.
func evenly(n int) *rapid.Generator[int] {
	return rapid.Custom(func(t *rapid.T) int {
		at := 0
		for _, bit := range rapid.SliceOfN(rapid.Bool(), 8, 8).Draw(t, "bits") {
			at *= 2
			if bit {
				at++
			}
		}
		return at * n / 256
	})
}

// orders draws from some happenings. Each order leaves about half of them out: what
// mends and what ends a story would else come before the story gets anywhere.
func orders(of []int) *rapid.Generator[order] {
	of = append([]int{nothing}, of...)
	one := rapid.Custom(func(t *rapid.T) event {
		return event{of[evenly(len(of)).Draw(t, "kind")], rapid.IntRange(0, 5).Draw(t, "a"), rapid.IntRange(0, 5).Draw(t, "b"), rapid.IntRange(0, 40).Draw(t, "d")}
	})
	return rapid.Custom(func(t *rapid.T) order {
		o := order{Failover: rapid.Bool().Draw(t, "failover")}
		without := rapid.SliceOfN(rapid.Bool(), len(happenings), len(happenings)).Draw(t, "without")
		for _, e := range rapid.SliceOfN(one, 30, 60).Draw(t, "events") {
			if e.Kind != nothing && !without[e.Kind] {
				o.Events = append(o.Events, e)
			}
		}
		return o
	})
}

// some are the happenings that are meant.
func some(meant func(happening) bool) (of []int) {
	for i, h := range happenings[1:] {
		if meant(h) {
			of = append(of, i+1)
		}
	}
	return of
}

func all(happening) bool { return true }

func recounted(o order, n int) (s string) {
	for _, e := range o.Events[:n] {
		s += fmt.Sprintf("\n  %s %d %d %d", happenings[e.Kind].name, e.A, e.B, e.D)
	}
	return fmt.Sprintf("failover %v%s", o.Failover, s)
}

// inOrder plays an order, and then what comes at its end. It returns what went wrong.
func inOrder(t *testing.T, s *site, n *tried, seeded defects, o order, last func(*play)) (failure string) {
	synctest.Test(t, func(t *testing.T) {
		p := begin(s, n, seeded, o.Failover)
		defer p.end(t)
		for i, e := range o.Events {
			happenings[e.Kind].do(p, e)
			synctest.Wait()
			p.checkAll()
			if failure = p.failed(); failure != "" {
				failure = fmt.Sprintf("%s\nafter %s", failure, recounted(o, i+1))
				return
			}
		}
		if last != nil {
			last(p)
			if failure = p.failed(); failure != "" {
				failure = fmt.Sprintf("%s\nin the end, after %s", failure, recounted(o, len(o.Events)))
			}
		}
	})
	return failure
}

// TestWhatIsRevokedIsNotAccepted: whatever happens in whatever order to links,
// filters, the control plane and Redis, no check that begins after a revocation was
// answered with success is answered from the state before it.
func TestWhatIsRevokedIsNotAccepted(t *testing.T) {
	s, n, any := newSite(t), &tried{}, orders(some(all))
	rapid.Check(t, func(rt *rapid.T) {
		for range ordersPerCheck {
			if failure := inOrder(t, s, n, defects{}, any.Draw(rt, "order"), nil); failure != "" {
				rt.Fatal(failure)
			}
		}
	})
	t.Log(n)
	each := n.orders.Load()
	if n.accepted.Load() < 10*each || n.unknown.Load() < each || n.confirmed.Load() < each || n.settled.Load() == 0 ||
		n.refused.Load() == 0 || n.killed.Load() == 0 {
		t.Error("it says too little")
	}
}

// TestWhatIsInUseIsAccepted: whatever has happened, once everything is mended every
// token is accepted everywhere; and while the control plane is away in good order and
// Redis is unchanged, they go on being accepted, also by a filter that was killed and
// has its run directory.
func TestWhatIsInUseIsAccepted(t *testing.T) {
	s, n, prompt := newSite(t), &tried{}, orders(some(func(h happening) bool { return !h.costly }))
	rapid.Check(t, func(rt *rapid.T) {
		if failure := inOrder(t, s, n, defects{}, prompt.Draw(rt, "order"), (*play).mendAndLeave); failure != "" {
			rt.Fatal(failure)
		}
	})
	t.Log(n)
	if needed := int64(hosts * len(values) * 4); n.needed.Load() < needed*n.orders.Load() {
		t.Error("it says too little")
	}
}
