package trafficpermission

import (
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy"
)

// Explanation says who may call: nobody if Sources is empty.
type Explanation struct {
	Sources []mesh.Selector `json:"sources"`
}

func explain(s *policy.Selection) any {
	if s == nil {
		return &Explanation{Sources: []mesh.Selector{}}
	}
	return &Explanation{Sources: policy.First[Spec](s).Sources}
}
