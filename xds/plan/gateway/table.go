package gateway

import (
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"github.com/zeebo/xxh3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

const (
	// connectionBudget is how long the OAuth server may take for an answer.
	connectionBudget = 30 * time.Second
	// treeFrom is the number of candidates from which a host gets a tree instead
	// of a list: a list costs Envoy 40 ns an entry, a tree a constant.
	treeFrom = 64
	// treeGrowth bounds how many times its list a tree may be large; nested
	// prefixes repeat their ancestors in each node.
	treeGrowth = 8
)

// anyHost is the virtual host for hosts that no route names.
const anyHost = "*"

// tableInput is what a table is made of. It is a cell's input only through its
// digest.
type tableInput struct {
	cells []*routeCell // ordered by route id
	oauth bool
	// treeFrom is the threshold; a parameter for tests that compare both forms.
	treeFrom int
}

func (in tableInput) digest() string {
	h := xxh3.New()
	for _, c := range in.cells {
		writeField(h, []byte(c.digest))
	}
	sum := h.Sum128().Bytes()
	if in.oauth {
		return hex.EncodeToString(sum[:]) + "+"
	}
	return hex.EncodeToString(sum[:])
}

// table assembles the route table from entries that are marshalled and
// validated already.
func table(in tableInput) (*resource.Resource, error) {
	issuer, end, err := ends(in)
	if err != nil {
		return nil, err
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(&routev3.RouteConfiguration{
		Name:                     TableName,
		IgnorePortInHostMatching: true,
		RequestHeadersToAdd:      forwarded(),
	})
	if err != nil {
		return nil, err
	}
	hosts := waysByHost(in.cells)
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		vhost, err := virtualHost(host, hosts[host], issuer, end, in.treeFrom)
		if err != nil {
			return nil, err
		}
		body = appendMessage(body, configVirtualHosts, vhost)
	}
	return resource.New(resource.Route, TableName, body), nil
}

// Field numbers of repeated fields whose elements are marshalled already.
const (
	configVirtualHosts protowire.Number = 2 // RouteConfiguration.virtual_hosts
	hostRoutes         protowire.Number = 3 // VirtualHost.routes
	listRoutes         protowire.Number = 1 // RouteList.routes
)

func appendMessage(dst []byte, field protowire.Number, message []byte) []byte {
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	return protowire.AppendBytes(dst, message)
}

// ends returns the first entry of every list, if there is any chain and any
// OAuth server, and the last.
func ends(in tableInput) (issuer, end []byte, err error) {
	if in.oauth && slices.ContainsFunc(in.cells, func(c *routeCell) bool { return c.chained }) {
		if issuer, err = marshalRoute(issuing()); err != nil {
			return nil, nil, err
		}
	}
	end, err = marshalRoute(unmatched())
	return issuer, end, err
}

// forwarded tells upstreams what the client asked for. Values of clients are
// overwritten: none is trusted.
func forwarded() []*corev3.HeaderValueOption {
	return []*corev3.HeaderValueOption{
		overwrite("x-forwarded-host", "%REQ(:AUTHORITY)%"),
		overwrite("x-forwarded-port", "%DOWNSTREAM_LOCAL_PORT%"),
		overwrite("x-forwarded-path", "%PATH(NQ:PATH)%"),
		overwrite("x-real-ip", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"),
	}
}

// normalHosts lower-cases hosts, orders them and removes repetitions.
func normalHosts(hosts []string) []string {
	out := make([]string, len(hosts))
	for i, h := range hosts {
		out[i] = strings.ToLower(h)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// waysByHost lists for each host what can match on it, best first: the ways of
// routes that name it and of routes that name none. anyHost is always there.
func waysByHost(cells []*routeCell) map[string][]way {
	named := map[string][]way{anyHost: nil}
	var hostless []way
	for _, c := range cells {
		if len(c.hosts) == 0 {
			hostless = append(hostless, c.ways...)
		}
		for _, h := range c.hosts {
			named[h] = append(named[h], c.ways...)
		}
	}
	for host, ways := range named {
		all := append(slices.Clip(ways), hostless...)
		slices.SortFunc(all, func(a, b way) int { return gateway.Compare(a.Candidate, b.Candidate) })
		named[host] = all
	}
	return named
}

// virtualHost marshals a host as a list, or as a tree if that is worth it.
func virtualHost(host string, ways []way, issuer, end []byte, from int) ([]byte, error) {
	vhost := &routev3.VirtualHost{Name: host, Domains: []string{host}}
	if nodes, ok := treeOf(ways); ok && len(ways) >= from {
		matcher, err := tree(nodes, issuer, end)
		if err != nil {
			return nil, err
		}
		vhost.Matcher = matcher
		return proto.MarshalOptions{Deterministic: true}.Marshal(vhost)
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(vhost)
	if err != nil {
		return nil, err
	}
	return appendWays(body, hostRoutes, ways, issuer, end), nil
}

// appendWays appends a complete list of entries.
func appendWays(dst []byte, field protowire.Number, ways []way, issuer, end []byte) []byte {
	if issuer != nil {
		dst = appendMessage(dst, field, issuer)
	}
	for _, w := range ways {
		for _, e := range w.entries {
			dst = appendMessage(dst, field, e)
		}
	}
	return appendMessage(dst, field, end)
}

// treeOf groups the ways of a host by the prefixes at which the answer can
// change. Each node holds every way that can match below it, its own and those
// of its ancestors, in priority order, so precedence does not depend on how a
// matcher falls back. The node "" is for everything else. ok is false if the
// nodes repeat too much.
func treeOf(ways []way) (nodes map[string][]way, ok bool) {
	byPath := map[string][]int{}
	for i, w := range ways {
		byPath[w.Path] = append(byPath[w.Path], i)
	}
	nodes = map[string][]way{"": nil}
	total := 0
	for path := range byPath {
		nodes[path] = nil
	}
	for path := range nodes {
		var order []int
		for end := 0; end <= len(path); end++ {
			order = append(order, byPath[path[:end]]...)
		}
		slices.Sort(order)
		if total += len(order); total > treeGrowth*(len(ways)+1) {
			return nil, false
		}
		for _, i := range order {
			nodes[path] = append(nodes[path], ways[i])
		}
	}
	return nodes, true
}

// tree is a prefix map on :path. Envoy looks at the path with its query there,
// which does no harm: no node's prefix contains a question mark, and the entries
// of a node compare the path alone.
func tree(nodes map[string][]way, issuer, end []byte) (*xdsmatcherv3.Matcher, error) {
	input, err := plan.Pack(&matcherv3.HttpRequestHeaderMatchInput{HeaderName: ":path"})
	if err != nil {
		return nil, err
	}
	prefixes := map[string]*xdsmatcherv3.Matcher_OnMatch{}
	for path, ways := range nodes {
		if path != "" {
			prefixes[path] = onMatch(ways, issuer, end)
		}
	}
	return &xdsmatcherv3.Matcher{
		MatcherType: &xdsmatcherv3.Matcher_MatcherTree_{MatcherTree: &xdsmatcherv3.Matcher_MatcherTree{
			Input: &xdscorev3.TypedExtensionConfig{Name: "path", TypedConfig: input},
			TreeType: &xdsmatcherv3.Matcher_MatcherTree_PrefixMatchMap{
				PrefixMatchMap: &xdsmatcherv3.Matcher_MatcherTree_MatchMap{Map: prefixes},
			},
		}},
		OnNoMatch: onMatch(nodes[""], issuer, end),
	}, nil
}

func onMatch(ways []way, issuer, end []byte) *xdsmatcherv3.Matcher_OnMatch {
	return &xdsmatcherv3.Matcher_OnMatch{OnMatch: &xdsmatcherv3.Matcher_OnMatch_Action{
		Action: &xdscorev3.TypedExtensionConfig{Name: "routes", TypedConfig: &anypb.Any{
			TypeUrl: "type.googleapis.com/envoy.config.route.v3.RouteList",
			Value:   appendWays(nil, listRoutes, ways, issuer, end),
		}},
	}}
}
