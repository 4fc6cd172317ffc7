package assembly

import (
	"github.com/meshgate/meshgate/controlplane/turns"
	"github.com/meshgate/meshgate/inspect"
	"github.com/meshgate/meshgate/xds/policy/all"
)

// chosenPolicies returns a source that tells which policies are chosen for which proxies. It
// reads the same views as the planner.
func (cp *ControlPlane) chosenPolicies() *inspect.Policies {
	return &inspect.Policies{Views: cp.views, Policies: all.Policies(), Latest: cp.store.Revision, Turns: turns.New(inspect.Waiting)}
}
