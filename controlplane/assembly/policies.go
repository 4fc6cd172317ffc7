package assembly

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/dryrun"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/turns"
	"github.com/meshgate/meshgate/inspect"
	"github.com/meshgate/meshgate/inspect/explain"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/resource"
)

// chosenPolicies returns a source that tells which policies are chosen for which proxies. It
// reads the same views as the planner.
func (cp *ControlPlane) chosenPolicies() *inspect.Policies {
	return &inspect.Policies{Views: cp.views, Policies: all.Policies(), Latest: cp.store.Revision, Turns: cp.questions(), Problems: problems{cp}}
}

// questions limits how many answers about selections and requests are worked out at the same time,
// of all kinds together: they share the processors with the planner.
func (cp *ControlPlane) questions() *turns.Queue {
	cp.asked.Do(func() { cp.turns = turns.New(inspect.Waiting) })
	return cp.turns
}

// explainedRequests returns a source that explains imagined requests by what proxies were sent.
func (cp *ControlPlane) explainedRequests() *explain.Meshes {
	return &explain.Meshes{
		Policies: cp.chosenPolicies(), Record: cp.tokenSource().Record, Last: cp.lastSet,
		Planned: func(ctx context.Context, mesh string) error { return cp.loop.UpToDate(ctx, publish.MeshScope(mesh)) },
	}
}

// explainedGateways returns a source that explains imagined requests at the gateways of the
// default control plane.
func (cp *ControlPlane) explainedGateways() *explain.Gateways {
	return &explain.Gateways{
		Scope: model.DefaultControlPlane, Last: cp.lastSet,
		Planned: func(ctx context.Context) error {
			return cp.loop.UpToDate(ctx, publish.ControlPlaneScope(model.DefaultControlPlane))
		},
		Record: cp.tokenSource().Record, Turns: cp.questions(),
		Nodes: func() (out []string) {
			for _, n := range cp.nodes.List(nodes.Query{}).Nodes {
				if n.Type == insight.Gateway && n.ControlPlane == model.DefaultControlPlane {
					out = append(out, n.Name)
				}
			}
			return out
		},
	}
}

// othersWaiting is how many dry runs of callers who are no administrators may wait for one of them.
const othersWaiting = 4

// dryRuns returns what says what writes would do.
func (cp *ControlPlane) dryRuns() *dryrun.Runner {
	return &dryrun.Runner{
		Loop: cp.loop, Latest: cp.store.Revision, Turns: cp.questions(), Others: turns.Sized(1, othersWaiting), Rules: cp.cfg.Access.Rules(),
	}
}

// lastSet returns what was last published for a node, nil if the node refuses a part of it: its
// Envoy then has something earlier.
func (cp *ControlPlane) lastSet(node string) *resource.Set {
	if len(cp.snapshots.Rejections(node)) > 0 {
		return nil
	}
	set, _ := cp.loop.Last(node)
	return set
}
