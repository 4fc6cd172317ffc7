package trafficpermission

import (
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/permit"
)

func inbound(d *draft.Inbound, s *policy.Selection) error { return chosen(d.Mesh, s).Inbound(d) }

func inboundRoutes(r *draft.Routes, s *policy.Selection) error {
	return chosen(r.Mesh, s).InboundRoutes(r)
}

// chosen permits the sources of the chosen policy, or nobody if none is chosen.
func chosen(mesh string, s *policy.Selection) *permit.Permission {
	if s == nil {
		return permit.Nobody(mesh)
	}
	return permit.Sources(mesh, policy.First[Spec](s).Sources)
}
