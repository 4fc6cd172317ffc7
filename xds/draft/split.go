package draft

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// Split says where the requests to one outbound go. It is made first, because it decides which
// clusters exist.
type Split struct {
	// Rules are tried in order. The first rule whose Match fits is taken.
	Rules []Rule
	// Otherwise is where everything else goes. If it is empty, nothing is routed.
	Otherwise []Destination
	// Hash says of what of a request a hash is taken, by which the endpoint is picked. If nothing of
	// a request can be hashed, or nothing is to be, endpoints are picked at random.
	Hash []*routev3.RouteAction_HashPolicy
	// HashSource takes the hash of a TCP connection of the address that it comes from.
	HashSource bool
}

// Rule is one conditional route of HTTP requests.
type Rule struct {
	// Action holds the rewrites; its destination is filled in from To.
	Match  *routev3.RouteMatch
	Action *routev3.RouteAction
	// Headers are the header changes of the rule, as in envoy.config.route.v3.Route.
	Headers *routev3.Route
	To      []Destination
}

// Destination is one destination with its share.
type Destination struct {
	// Tags select endpoints. They contain the service tag.
	Tags   mesh.Tags
	Weight uint32
}

// Destinations lists every destination, those of the rules first.
func (s *Split) Destinations() []Destination {
	var out []Destination
	for _, r := range s.Rules {
		out = append(out, r.To...)
	}
	return append(out, s.Otherwise...)
}
