package faultinjection

import (
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy"
)

// Explanation is one of the policies in force: its faults, and whose requests they affect.
type Explanation struct {
	Sources []mesh.Selector `json:"sources"`
	Conf    *Conf           `json:"conf"`
}

func explain(s *policy.Selection) any {
	out := make([]Explanation, 0, len(s.Policies))
	for _, p := range s.Policies {
		if spec, ok := p.Spec.(*Spec); ok {
			out = append(out, Explanation{spec.Sources, spec.Conf})
		}
	}
	return out
}
