package edge

import (
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/zeebo/xxh3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/resource"
)

// connectionBudget is how long the OAuth server may take to answer.
const connectionBudget = 30 * time.Second

// tableInput is what a table consists of. A cell reads it only through its digest.
type tableInput struct {
	cells []*routeCell // ordered by route id
	oauth bool
	// filter says how the proxy has the filter.
	filter contract.Mode
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
	return fmt.Sprint(hex.EncodeToString(sum[:]), in.oauth, in.filter, in.forwardDots)
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
	how, err := adapterOf(in.filter)
	if err != nil {
		return nil, err
	}
	ways, chains := in.contents()
	end, err := leadTo(how, unmatched())
	if err != nil {
		return nil, err
	}
	first, err := guards(how, in.forwardDots)
	if err != nil {
		return nil, err
	}
	if in.oauth && len(chains) > 0 {
		handedOver, err := how.handedOver()
		if err != nil {
			return nil, err
		}
		first = append(first, handedOver...)
	}
	config := &routev3.RouteConfiguration{
		Name: how.tableName(), IgnorePortInHostMatching: true, RequestHeadersToAdd: forwarded(),
	}
	if err := how.table(config, chains); err != nil {
		return nil, err
	}
	for _, h := range arrange(ways, in.copies) {
		v, err := virtualHost(how, h, first, end)
		if err != nil {
			return nil, err
		}
		config.VirtualHosts = append(config.VirtualHosts, v)
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(config)
	if err != nil {
		return nil, err
	}
	return resource.New(resource.Route, config.GetName(), body), nil
}

// virtualHost returns a virtual host, named by its first domain. Without any way it needs no
// matcher.
func virtualHost(how adapter, h host, first []branch, end onMatch) (*routev3.VirtualHost, error) {
	out := &routev3.VirtualHost{Name: h.domains[0], Domains: h.domains}
	if len(h.ways) == 0 {
		out.Routes = []*routev3.Route{unmatched()}
		return out, how.unchained(out.Routes[0])
	}
	out.Matcher = lookup(h.ways, first, end)
	return out, nil
}
