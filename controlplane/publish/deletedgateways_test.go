package publish

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/xds/snapshot"
)

// remembers demands that the loop remembers a gateway that is away, or nothing of it.
func (b *between) remembers(when, node string, want bool) {
	b.t.Helper()
	time.Sleep(time.Second) // virtual: rounds are at most 100 ms apart
	synctest.Wait()
	if set, answered := b.loop.Last(node); (set != nil) != want || (answered != nil) != want {
		b.t.Errorf("%s: of %s is remembered: its last set %t, its last answer %t", when, node, set != nil, answered != nil)
	}
}

// Nothing is remembered of the gateways of a deleted control plane, whether they left before or after the
// deletion, and of a mesh that looks at it or not. Otherwise the last set of each would stay in memory.
func TestGatewaysOfADeletedControlPlaneAreForgotten(t *testing.T) {
	for name, looked := range map[string]bool{"nobody looks at it": false, "a mesh looks at it": true} {
		t.Run(name, func(t *testing.T) {
			betweenScopes(t, func(_ *testing.T, b *between) {
				if looked {
					b.demand("other")
				}
			}, func(_ *testing.T, b *between) {
				b.connect("m.web-1")
				enter := func(node string) (leave func()) {
					leave = b.connect(node)
					b.loop.Confirmed(node, snapshot.State{Set: b.snaps.Get(node)})
					return leave
				}
				early, late, stays := enter("cp/other/early"), enter("cp/other/late"), enter("cp/default/a")
				early()
				stays()
				b.remembers("away", "cp/other/early", true)
				b.loop.Deleted("other")
				b.remembers("it left before the deletion", "cp/other/early", false)
				b.remembers("it is connected", "cp/other/late", true)
				late()
				b.remembers("it left after the deletion", "cp/other/late", false)
				b.remembers("of another control plane", "cp/default/a", true)
			})
		})
	}
}
