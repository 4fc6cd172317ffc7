package edge

import (
	"slices"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
)

// Check compares a result of Plan with a plan from nothing, byte for byte. It costs a whole
// plan and is for tests and for operators who suspect a mistake. It skips a result in which a
// failed cell was kept.
func (p *Planner) Check(g *view.Gateway, r Result) error {
	if slices.ContainsFunc(r.Failures, func(f plan.Failure) bool { return f.Kept }) {
		return nil
	}
	fresh := NewPlanner(p.params)
	fresh.copies = p.copies
	return plan.Differ(r.Set, fresh.Plan(g).Set)
}
