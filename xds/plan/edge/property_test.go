package edge

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

func (w *world) putOracle(r oracleRoute, n int) {
	if r.spec.Service != "" {
		s := serviceSpec(r.base)
		s.Enabled = !r.down
		w.put(gateway.Services, id(1, n), 1, s)
	}
	w.put(gateway.Routes, r.id, r.created, r.spec)
}

// TestDecisionsEqualTheRules compares the decisions of the table with the oracle.
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
