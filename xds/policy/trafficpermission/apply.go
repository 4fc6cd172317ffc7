package trafficpermission

import (
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/permit"
)

func inbound(d *draft.Inbound, s *policy.Selection) error {
	return permit.Inbound(d, func() (*permit.Permission, error) { return chosen(d.Mesh, s) })
}

func inboundRoutes(r *draft.Routes, s *policy.Selection) error {
	p, err := chosen(r.Mesh, s)
	if err != nil {
		return err
	}
	return p.InboundRoutes(r)
}

// chosen permits the sources of the chosen policy, or nobody if none is chosen.
func chosen(mesh string, s *policy.Selection) (*permit.Permission, error) {
	if s == nil {
		return permit.Nobody(mesh), nil
	}
	return permit.Sources(mesh, policy.First[Spec](s).Sources)
}
