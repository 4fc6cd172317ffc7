package assembly

import (
	"github.com/meshgate/meshgate/controlplane/turns"
	"github.com/meshgate/meshgate/inspect"
	"github.com/meshgate/meshgate/inspect/explain"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/policy/all"
)

// chosenPolicies returns a source that tells which policies are chosen for which proxies. It
// reads the same views as the planner.
func (cp *ControlPlane) chosenPolicies() *inspect.Policies {
	return &inspect.Policies{Views: cp.views, Policies: all.Policies(), Latest: cp.store.Revision, Turns: turns.New(inspect.Waiting)}
}

// explainedRequests returns a source that explains imagined requests by what proxies were sent.
func (cp *ControlPlane) explainedRequests() *explain.Meshes {
	return &explain.Meshes{
		Policies: cp.chosenPolicies(), Settled: cp.loop.Settled, Record: cp.tokenSource().Record,
		Last: func(node string) *resource.Set {
			set, _ := cp.loop.Last(node)
			return set
		},
	}
}
