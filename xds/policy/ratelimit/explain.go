package ratelimit

import (
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy"
)

// Explanation is the limit of the callers that a source selects, unless one of those before it
// does.
type Explanation struct {
	Source mesh.Selector `json:"source"`
	HTTP   *HTTP         `json:"http"`
}

func explain(s *policy.Selection) any {
	out := make([]Explanation, 0, len(s.Policies))
	for _, l := range limits(s) {
		out = append(out, Explanation{l.source, l.HTTP})
	}
	return out
}
