package edge

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/zeebo/xxh3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/chain"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// connectionBudget is how long the OAuth server may take to answer.
const connectionBudget = 30 * time.Second

// tableInput is what a table consists of. A cell reads it only through its digest.
type tableInput struct {
	cells []*routeCell // ordered by route id
	oauth bool
	// forwardDots lets pass the ambiguous paths that guards otherwise refuse.
	forwardDots bool
	// copies is how often the ways of routes without hosts may be copied. It is a parameter
	// for tests.
	copies int
}

func (in tableInput) digest() string {
	h := xxh3.New()
	for _, c := range in.cells {
		writeField(h, []byte(c.digest))
	}
	sum := h.Sum128().Bytes()
	return fmt.Sprint(hex.EncodeToString(sum[:]), in.oauth, in.forwardDots)
}

// contents returns the ways of a table, best first, and its chains.
func (in tableInput) contents() (ways []*way, chains map[string][]byte) {
	chains = map[string][]byte{}
	for _, c := range in.cells {
		ways = append(ways, c.ways...)
		for _, encoded := range c.chains {
			chains[string(encoded)] = encoded
		}
	}
	slices.SortStableFunc(ways, func(a, b *way) int {
		if order := a.tier.Compare(b.tier); order != 0 {
			return order
		}
		return gateway.CompareWithin(a.Candidate, b.Candidate)
	})
	return ways, chains
}

// table assembles the route table from ways that are already validated.
func table(in tableInput) (*resource.Resource, error) {
	ways, chains := in.contents()
	end, err := leadTo([]*routev3.Route{unmatched()})
	if err != nil {
		return nil, err
	}
	first, err := guards(in.forwardDots)
	if err != nil {
		return nil, err
	}
	if in.oauth && len(chains) > 0 {
		issuer, err := leadTo([]*routev3.Route{issuing()})
		if err != nil {
			return nil, err
		}
		first = append(first, branch{equals(oauthInput, contract.StateHandedOver, false), issuer})
	}
	config := &routev3.RouteConfiguration{
		Name: TableName, IgnorePortInHostMatching: true, RequestHeadersToAdd: forwarded(),
	}
	if config.TypedPerFilterConfig, err = carried(chains); err != nil {
		return nil, err
	}
	for _, h := range arrange(ways, in.copies) {
		config.VirtualHosts = append(config.VirtualHosts, virtualHost(h, first, end))
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(config)
	if err != nil {
		return nil, err
	}
	return resource.New(resource.Route, TableName, body), nil
}

// carried gives the filter the chains of a table, once each; the routes name theirs, or say
// that they have none.
func carried(chains map[string][]byte) (map[string]*anypb.Any, error) {
	if len(chains) == 0 {
		return nil, nil
	}
	var all [][]byte
	for _, text := range slices.Sorted(maps.Keys(chains)) {
		all = append(all, chains[text])
	}
	text, err := contract.MarshalChains(all)
	if err != nil {
		return nil, err
	}
	config, err := chain.PerRoute(text)
	if err != nil {
		return nil, err
	}
	packed, err := plan.Pack(config)
	return map[string]*anypb.Any{contract.FilterName: packed}, err
}

// virtualHost returns a virtual host, named by its first domain. Without any way it needs no
// matcher.
func virtualHost(h host, first []branch, end onMatch) *routev3.VirtualHost {
	out := &routev3.VirtualHost{Name: h.domains[0], Domains: h.domains}
	if len(h.ways) == 0 {
		out.Routes = []*routev3.Route{unmatched()}
		return out
	}
	out.Matcher = lookup(h.ways, first, end)
	return out
}
