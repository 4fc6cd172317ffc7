package meshtrace

import (
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/target"
)

func explain(s *policy.Selection) any { return merged(s.Policies) }

// rules shows the one conf of the proxy, and nothing at its inbounds and outbounds.
func rules(s *policy.Selection, at policy.Site) []policy.Rule {
	if at.Side != policy.Proxy {
		return nil
	}
	return target.RuleFor(target.Entries(s.Policies, items), mesh.Tags{}, target.Fields[Conf])
}
