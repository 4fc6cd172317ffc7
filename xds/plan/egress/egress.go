package egress

import (
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan/passing"
)

// New returns a planner of egresses that knows nothing.
func New() *passing.Planner {
	return passing.New(passing.Role{Serves: (*view.Mesh).ThroughEgress, Leads: elsewhere})
}

// elsewhere returns the endpoints of a service at the ingresses of other zones.
func elsewhere(s *view.MeshService, _ string) (out []view.Endpoint) {
	for i := range s.Endpoints {
		if e := &s.Endpoints[i]; e.Ingress != "" && e.Ready {
			out = append(out, *e)
		}
	}
	return out
}
