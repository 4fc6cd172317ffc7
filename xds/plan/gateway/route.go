package gateway

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"github.com/zeebo/xxh3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/chain"
	"github.com/meshgate/meshgate/xds/plan"
)

// bodyBuffer is how many bytes of a request body the filter may hold back on a
// route with a chain; it lifts the limit of the connection.
const bodyBuffer = 1 << 20

// defaultIdle is the pause between two bytes after which a stream to a service
// without read and write timeouts ends.
const defaultIdle = 60 * time.Second

// routeKey is all that the entries of a route read.
type routeKey struct {
	route *view.Route
	// service is nil on a route without one.
	service *view.Service
	// cluster is empty if the service's cluster could never be built.
	cluster string
	plugins [chain.MaxPlugins]chain.Attached
	// Ports of the listeners, for redirects.
	http, https uint32
}

// routeCell is what one route contributes to every table that it is in.
type routeCell struct {
	hosts []string
	ways  []way
	// chained reports that the filter runs on this route.
	chained bool
	// broken says why the route refuses every request; nil if it does not.
	broken error
	digest string
}

// way is a candidate with its entries: marshalled envoy.config.route.v3.Route
// messages that together match what the candidate matches.
type way struct {
	gateway.Candidate
	entries [][]byte
}

// buildRoute makes the entries of a route.
func buildRoute(k routeKey) (*routeCell, error) {
	cell := &routeCell{hosts: normalHosts(k.route.Spec.Hosts)}
	act, broken := actionOf(k)
	cell.broken = broken
	cell.chained = len(act.filters) > 0
	h := xxh3.New()
	for _, c := range gateway.Candidates(k.route.ID, k.route.Created, k.route.Spec) {
		w := way{Candidate: c}
		for _, r := range entries(k, c, act) {
			body, err := marshalRoute(r)
			if err != nil {
				return nil, fmt.Errorf("path %q: %w", c.Path, err)
			}
			w.entries = append(w.entries, body)
			writeField(h, body)
		}
		cell.ways = append(cell.ways, w)
	}
	// The digest covers what the table reads besides the entries.
	writeField(h, fmt.Appendf(nil, "%q %d %v %d %d", cell.hosts, k.route.Created.UnixNano(), cell.chained,
		len(k.route.Spec.Methods), len(k.route.Spec.Paths)))
	sum := h.Sum128().Bytes()
	cell.digest = k.route.ID + hex.EncodeToString(sum[:])
	return cell, nil
}

func writeField(h *xxh3.Hasher, b []byte) {
	_, _ = h.WriteString(strconv.Itoa(len(b)) + ":") // a hasher does not fail
	_, _ = h.Write(b)
}

func marshalRoute(r *routev3.Route) ([]byte, error) {
	if err := r.ValidateAll(); err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(r)
}

// action is what happens to a matched request, apart from its path.
type action struct {
	filters map[string]*anypb.Any
	// refuse answers instead of forwarding.
	refuse *routev3.Route
	host   string
}

// actionOf decides between forwarding and refusing. A chain that cannot be
// encoded refuses: the request must neither pass without its plugins nor fall
// through to a less specific route.
func actionOf(k routeKey) (action, error) {
	service := ""
	if k.service != nil {
		service = k.service.ID
	}
	refuse := func(err error) (action, error) {
		return action{refuse: reply(503, `{"message":"this route is misconfigured"}`)}, err
	}
	encoded, err := chain.Encode(k.route.ID, service, k.plugins)
	if err != nil {
		return refuse(err)
	}
	filters, err := perRoute(encoded)
	switch {
	case err != nil:
		return refuse(err)
	case k.service == nil:
		return action{filters: filters, refuse: reply(503, `{"message":"no Service found with those values"}`)}, nil
	case k.cluster == "":
		return action{
			filters: filters, refuse: reply(503, `{"message":"this route is misconfigured"}`),
		}, fmt.Errorf("service %s has no cluster", k.service.ID)
	case k.route.Spec.PreserveHost:
		return action{filters: filters}, nil
	default:
		return action{filters: filters, host: authority(k.service)}, nil
	}
}

// perRoute is the configuration of the filter on a route; nil where it has none.
func perRoute(encoded []byte) (map[string]*anypb.Any, error) {
	if encoded == nil {
		return nil, nil
	}
	config, err := chain.PerRoute(encoded)
	if err != nil {
		return nil, err
	}
	packed, err := plan.Pack(config)
	if err != nil {
		return nil, err
	}
	return map[string]*anypb.Any{contract.FilterName: packed}, nil
}

// entries lists the routes of one candidate, in the order in which they are
// tried. One per method, since Envoy has no alternation of header values but
// regular expressions.
func entries(k routeKey, c gateway.Candidate, a action) []*routev3.Route {
	var out []*routev3.Route
	methods := slices.Clone(k.route.Spec.Methods)
	slices.Sort(methods)
	if len(methods) == 0 {
		methods = []string{""}
	}
	for _, method := range slices.Compact(methods) {
		if gateway.HTTPSOnly(k.route.Spec) {
			out = append(out, insecure(k, c, method)...)
		}
		if a.refuse != nil {
			r := clone(a.refuse)
			r.Match = match(join{prefix: prefixOf(c)}, method)
			r.TypedPerFilterConfig = a.filters
			out = append(out, name(r, k, a))
			continue
		}
		for _, j := range joins(c.Path, k.route.Spec.StripPath, k.service.Spec.Path) {
			r := &routev3.Route{
				Match:                match(j, method),
				Action:               &routev3.Route_Route{Route: forward(k, a, j)},
				TypedPerFilterConfig: a.filters,
			}
			if k.route.Spec.StripPath && c.Path != "" {
				r.RequestHeadersToAdd = []*corev3.HeaderValueOption{overwrite(headerForwardedPrefix, literal(c.Path))}
			}
			out = append(out, name(r, k, a))
		}
	}
	return out
}

func name(r *routev3.Route, k routeKey, a action) *routev3.Route {
	r.Name = k.route.ID
	if len(a.filters) > 0 {
		r.RequestBodyBufferLimit = wrapperspb.UInt64(bodyBuffer)
	}
	return r
}

func prefixOf(c gateway.Candidate) string {
	if c.Path == "" {
		return "/"
	}
	return c.Path
}

// match selects a join and, unless empty, a method.
func match(j join, method string) *routev3.RouteMatch {
	m := &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: j.prefix}}
	if j.exact != "" {
		m.PathSpecifier = &routev3.RouteMatch_Path{Path: j.exact}
	}
	if method != "" {
		m.Headers = append(m.Headers, header(":method", method))
	}
	return m
}

func header(name, value string) *routev3.HeaderMatcher {
	return &routev3.HeaderMatcher{Name: name, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
		StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: value}},
	}}
}

// forward sends a request to the service. The whole answer may take any time,
// as long as bytes move.
func forward(k routeKey, a action, j join) *routev3.RouteAction {
	out := &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: k.cluster},
		PrefixRewrite:    j.rewrite,
		Timeout:          durationpb.New(0),
		IdleTimeout:      durationpb.New(idle(k.service)),
	}
	if j.pattern != "" {
		out.RegexRewrite = &matcherv3.RegexMatchAndSubstitute{
			Pattern: &matcherv3.RegexMatcher{Regex: j.pattern}, Substitution: j.substitution,
		}
	}
	if a.host != "" {
		out.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: a.host}
	}
	if n := k.service.Spec.Retries; n > 0 {
		// Only requests that never reached the service: a retry must not repeat one.
		out.RetryPolicy = &routev3.RetryPolicy{
			RetryOn: "connect-failure", NumRetries: wrapperspb.UInt32(uint32(min(n, 32767))),
			RetryBackOff: &routev3.RetryPolicy_RetryBackOff{
				BaseInterval: durationpb.New(5 * time.Millisecond), MaxInterval: durationpb.New(50 * time.Millisecond),
			},
		}
	}
	return out
}

func idle(s *view.Service) time.Duration {
	if ms := max(s.Spec.ReadTimeout, s.Spec.WriteTimeout); ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return defaultIdle
}

// clone copies a message; marshalled forms must not share one that is edited.
func clone(r *routev3.Route) *routev3.Route {
	c, _ := proto.Clone(r).(*routev3.Route)
	return c
}
