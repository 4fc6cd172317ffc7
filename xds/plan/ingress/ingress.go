package ingress

import (
	"maps"
	"net/netip"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan/passing"
)

// New returns a planner of ingresses that knows nothing.
func New() *passing.Planner {
	return passing.New(passing.Role{
		Serves: func(*view.Mesh) bool { return true },
		Leads:  local,
	})
}

// local returns the endpoints of a service that are in the zone and get connections. Whatever a
// dataplane says, its zone is the one that it is in.
func local(s *view.MeshService, zone string, proxies map[netip.AddrPort]bool) (out []view.Endpoint, left int) {
	for _, e := range s.Endpoints {
		if e.Ingress != "" || !e.Ready {
			continue
		}
		if passing.Astray(&e, proxies) {
			left++
			continue
		}
		tags := maps.Clone(e.Tags)
		tags[mesh.TagZone] = zone
		e.Tags = tags
		out = append(out, e)
	}
	return out, left
}
