package sidecar_test

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/meshtokenauth"
)

// beingRead are facts that nobody knows yet.
type beingRead struct{}

// Awaited implements policy.Awaiting.
func (beingRead) Awaited() (what string, reading bool) { return "it is being read", true }

// TestWhatIsKeptWhileFactsAreRead: an operator is told that the last good version is in force
// where there is one, and not of an inbound that has never had any.
func TestWhatIsKeptWhileFactsAreRead(t *testing.T) {
	for name, kept := range map[string]bool{"it had none": false, "it had one": true} {
		t.Run(name, func(t *testing.T) {
			policies := all.Policies()
			for i, p := range policies {
				if p.Kind == meshtokenauth.Kind {
					slow := *p
					slow.Facts = func(policy.World, []*view.Policy) any { return beingRead{} }
					policies[i] = &slow
				}
			}
			w := newWorld(t)
			w.put(mesh.Dataplanes, meshName, "backend-1", dataplane("127.0.0.1", "backend", "http"))
			planner := sidecar.New(policies, nil, logged, w.state())
			if kept {
				planner.Join("backend-1")
				planner.Plan()
			}
			w.raw(tokensOfBackend)
			planner.Update(w.state(), nil, true)
			planner.Join("backend-1")
			planner.Plan()
			if f := planner.Failures("backend-1"); len(f) != 1 || f[0].Kept != kept {
				t.Errorf("failures are %+v", f)
			}
		})
	}
}
