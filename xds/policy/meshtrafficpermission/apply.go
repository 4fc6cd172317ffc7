package meshtrafficpermission

import (
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/permit"
	"github.com/meshgate/meshgate/xds/policy/target"
)

func inbound(d *draft.Inbound, s *policy.Selection) error {
	return permit.Inbound(d, func() (*permit.Permission, error) { return permission(d.Mesh, s) })
}

func inboundRoutes(r *draft.Routes, s *policy.Selection) error {
	p, err := permission(r.Mesh, s)
	if err != nil {
		return err
	}
	return p.InboundRoutes(r)
}

// permission permits the callers of whom the strongest item says so.
func permission(meshName string, s *policy.Selection) (*permit.Permission, error) {
	var js []permit.Judgement
	for _, e := range target.Deciding(entries(s.Policies)) {
		js = append(js, permit.Judgement{Source: e.Selector, Allow: e.Conf.Action != Deny, Doubt: e.Conf.Action == AllowWithShadowDeny})
	}
	return permit.Judged(meshName, js)
}

// entries are the items of chosen policies with the actions as we write them. An item that
// cannot be read denies.
func entries(chosen []*view.Policy) []target.Entry[Conf] {
	out := target.Entries(chosen, items)
	for i, e := range out {
		said := &Conf{Deny}
		if e.Conf != nil {
			if action, known := actions[e.Conf.Action]; known {
				said.Action = action
			}
		}
		out[i].Conf = said
	}
	return out
}

// admits reports whether chosen policies admit a caller that has the tags of what is says.
func admits(chosen []*view.Policy, is func(mesh.Tags) bool) bool {
	for _, e := range target.Deciding(entries(chosen)) {
		if is(e.Selector) {
			return e.Conf.Action != Deny
		}
	}
	return false
}
