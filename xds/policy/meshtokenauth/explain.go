package meshtokenauth

import (
	"cmp"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/target"
)

// explain returns the rules, as those of the mesh API.
func explain(s *policy.Selection) any { return rules(s, policy.Site{Side: policy.Callers}) }

// rules are what is demanded of which callers. A stronger demand replaces a weaker one as a
// whole, because half of each would be none.
func rules(s *policy.Selection, _ policy.Site) []policy.Rule {
	out := target.CallerRules(target.Entries(s.Policies, items), target.Last[Default])
	for i := range out {
		if d, ok := out[i].Conf.(*Default); ok {
			out[i].Conf = explained(d)
		}
	}
	return out
}

func explained(d *Default) *Default {
	out := *d
	if d.Plugin != nil {
		p := *d.Plugin
		p.ControlPlane = cmp.Or(p.ControlPlane, model.DefaultControlPlane)
		out.Plugin = &p
	}
	if d.Config != nil {
		c := *d.Config
		c.AuthHeaderName = cmp.Or(c.AuthHeaderName, "authorization")
		out.Config = &c
	}
	return &out
}
