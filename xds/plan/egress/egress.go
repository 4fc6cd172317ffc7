package egress

import (
	"net/netip"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan/passing"
)

// New returns a planner of egresses that knows nothing.
func New() *passing.Planner {
	return passing.New(passing.Role{Serves: (*view.Mesh).ThroughEgress, Leads: elsewhere, ToIngresses: true})
}

// elsewhere returns the endpoints of a service at the ingresses of other zones.
func elsewhere(s *view.MeshService, _ string, proxies map[netip.AddrPort]bool) (out []view.Endpoint, left int) {
	for i := range s.Endpoints {
		switch e := &s.Endpoints[i]; {
		case e.Ingress == "" || !e.Ready:
		case passing.Astray(e, proxies):
			left++
		default:
			out = append(out, *e)
		}
	}
	return out, left
}
