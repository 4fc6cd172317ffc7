package meshtrafficpermission

import (
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/target"
)

// explain returns the rules, as those of the mesh API.
func explain(s *policy.Selection) any { return rules(s, policy.Site{Side: policy.Callers}) }

// rules say what is decided about which callers. Everybody else may not call.
func rules(s *policy.Selection, _ policy.Site) []policy.Rule {
	return target.CallerRules(entries(s.Policies), target.Last[Conf])
}
