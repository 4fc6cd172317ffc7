package gateway

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/xds/resource"
)

func (w *world) putOracle(r oracleRoute, n int) {
	if r.spec.Service != "" {
		s := serviceSpec(r.base)
		s.Enabled = !r.down
		w.put(gateway.Services, id(1, n), 1, s)
	}
	w.put(gateway.Routes, r.id, r.created, r.spec)
}

// TestDecisionsEqualTheRules compares what the table says with the oracle.
func TestDecisionsEqualTheRules(t *testing.T) {
	ports := [2]int{int(testParams.HTTPPort), int(testParams.HTTPSPort)}
	rapid.Check(t, func(rt *rapid.T) {
		d := draw(rt, ports)
		w := newWorld(rt)
		for n, r := range d.routes {
			w.putOracle(r, n)
		}
		for _, copies := range []int{1, mostCopies} { // virtual hosts merged, and not
			p := NewPlanner(testParams)
			p.copies = copies
			table := tableOf(rt, p.Plan(w.state()).Set)
			for _, req := range d.requests {
				if got, want := decide(rt, table, req), oracle(d.routes, req); got != want {
					rt.Fatalf("copies %d: %+v\n got %s\nwant %s", copies, req, got, want)
				}
			}
		}
	})
}

// TestIncrementalEqualsFromNothing edits at random and compares a planner with
// memory with one without.
func TestIncrementalEqualsFromNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt)
		p := NewPlanner(testParams)
		for range rapid.IntRange(1, 12).Draw(rt, "edits") {
			n := rapid.IntRange(0, 4).Draw(rt, "n")
			switch rapid.IntRange(0, 4).Draw(rt, "edit") {
			case 0:
				w.drop(gateway.Routes, id(2, n))
			case 1:
				w.drop(gateway.Plugins, id(3, 0))
			case 2:
				w.put(gateway.Plugins, id(3, 0), 1, pluginSpec(rt, "", "", func(c *gateway.OAuth2Config) {
					c.Realm = fmt.Sprint(n)
				}))
			default:
				w.putOracle(drawRoute(rt, n, [2]int{8000, 8443}), n)
			}
			g := w.state()
			mine, fresh := p.Plan(g).Set, NewPlanner(testParams).Plan(g).Set
			for _, kind := range resource.Types {
				if d := mine.Diff(fresh, kind); !d.Empty() {
					rt.Fatalf("%s differs from a plan from nothing: %v removed %v", kind, d.Changed, d.Removed)
				}
			}
		}
	})
}
