package trafficroute

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
)

// split decides where the requests to an outbound with these tags go.
func split(s *policy.Selection, outbound mesh.Tags) (*draft.Split, error) {
	c := policy.First[Spec](s).Conf
	if c == nil {
		return nil, fmt.Errorf("traffic route %s has no conf", s.Policies[0].Name)
	}
	out := &draft.Split{Otherwise: targets(c.Split, c.Destination, outbound)}
	out.Hash, out.HashSource = hashes(c.LoadBalancer.hashed())
	for i := range c.HTTP {
		r := &c.HTTP[i]
		out.Rules = append(out.Rules, draft.Rule{
			Match: matchOf(r.Match), Action: actionOf(r.Modify), Headers: headersOf(r.Modify),
			To: targets(r.Split, r.Destination, outbound),
		})
	}
	return out, nil
}

// targets resolves destinations. It merges those that resolve to the same tags and omits those
// with weight 0.
func targets(split []Split, destination, outbound mesh.Tags) []draft.Destination {
	if len(split) == 0 {
		if len(destination) == 0 {
			return nil
		}
		return []draft.Destination{{Tags: resolve(destination, outbound), Weight: 1}}
	}
	var tags []mesh.Tags
	var weights []uint64
	at := map[string]int{}
	for _, s := range split {
		if s.Weight == nil || *s.Weight == 0 {
			continue
		}
		t := resolve(s.Destination, outbound)
		i, ok := at[t.String()]
		if !ok {
			i = len(tags)
			at[t.String()] = i
			tags, weights = append(tags, t), append(weights, 0)
		}
		weights[i] += uint64(*s.Weight)
	}
	out := make([]draft.Destination, len(tags))
	for i, w := range scale(weights) {
		out[i] = draft.Destination{Tags: tags[i], Weight: w}
	}
	return out
}

// scale keeps the sum of weights within 32 bits, because Envoy refuses a route with more. No
// weight becomes zero. Usual weights stay unchanged.
func scale(weights []uint64) []uint32 {
	sum := uint64(0)
	for _, w := range weights {
		sum += w
	}
	shift := 0
	if sum > math.MaxUint32 {
		// One bit more than needed leaves room for weights that are raised to 1.
		shift = bits.Len64(sum) - 31
	}
	out := make([]uint32, len(weights))
	for i, w := range weights {
		out[i] = uint32(max(w>>shift, 1)) //nolint:gosec // shifted into range above
	}
	return out
}

// resolve completes the tags of a destination. Missing tags, and tags with value *, come from
// the outbound. If the outbound has no such tag, any value matches.
func resolve(destination, outbound mesh.Tags) mesh.Tags {
	out := make(mesh.Tags, len(destination)+len(outbound))
	for k, v := range outbound {
		out[k] = v
	}
	for k, v := range destination {
		if v != mesh.AnyValue {
			out[k] = v
		}
	}
	return out
}
