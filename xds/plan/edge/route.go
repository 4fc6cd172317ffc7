package edge

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"github.com/zeebo/xxh3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/chain"
	"github.com/meshgate/meshgate/xds/plan"
)

// defaultIdle is the pause between two bytes after which a stream to a service
// without read and write timeouts ends.
const defaultIdle = 60 * time.Second

// routeKey is all that the entries of a route read.
type routeKey struct {
	route *view.Route
	// service is nil on a route without one.
	service *view.Service
	// servicePlane is the member of a group that has the service.
	servicePlane string
	to           destination
	// host is the Host header for the service.
	host    string
	plugins [chain.MaxPlugins]chain.Attached
	// Ports of the listeners, for redirects.
	http, https uint32
	// oauth says that there is an OAuth server to hand requests over to.
	oauth bool
	// filter says how the proxy has the filter.
	filter contract.Mode
}

// destination is where the requests for a service go.
type destination struct {
	// cluster is empty if the service's cluster could never be built.
	cluster string
	// byName says that each endpoint there has its own Host header. It belongs to the
	// cluster that is there, which may be an older one than was asked for: an endpoint
	// without one would be sent what the client said.
	byName bool
}

// routeCell is what one route contributes to the table.
type routeCell struct {
	ways []*way
	// chains are those that the filter runs on this route, encoded.
	chains [][]byte
	// broken says why the route refuses every request or, if it cannot be
	// matched, has no ways; nil if all is well.
	broken error
	digest string
}

// way is a candidate with what it demands and what it leads to. It is shared by
// all virtual hosts and never changed.
type way struct {
	gateway.Candidate
	tier       gateway.Tier
	hosts      []gateway.HostPattern
	conditions []predicate
	then       onMatch
}

// buildRoute makes the ways of a route. One that cannot be made as it should be
// refuses every request: the ways of before may lack a plugin that it has now.
func buildRoute(k routeKey) (*routeCell, error) {
	if err := gateway.Matchable(k.route.Spec); err != nil {
		return &routeCell{broken: err, digest: k.route.ID}, nil
	}
	cell, err := plan.Protect(k, func(k routeKey) (*routeCell, error) { return cellOf(k, fateOf(k)) })
	if err == nil {
		return cell, nil
	}
	return cellOf(k, fate{refuse: reply(503, misconfigured), why: contract.ReasonMisconfigured, broken: err})
}

// cellOf makes the ways of a route with a fate.
func cellOf(k routeKey, end fate) (*routeCell, error) {
	cell := &routeCell{broken: end.broken}
	for _, f := range []filtered{end.filter, end.early} {
		if f.chain != nil {
			cell.chains = append(cell.chains, f.chain)
		}
	}
	var hosts []gateway.HostPattern
	for _, text := range k.route.Spec.Hosts {
		if p, ok := gateway.ParseHost(text); ok {
			hosts = append(hosts, p)
		}
	}
	candidates := gateway.Candidates(k.route.ID, k.route.Created, k.route.Spec)
	if chain.HasEndpoints(k.plugins) {
		candidates = append(candidates, gateway.MetadataCandidates(k.route.ID, k.route.Created, k.route.Spec)...)
	}
	h := xxh3.New()
	writeField(h, fmt.Appendf(nil, "%v %d %q %d", hosts, k.route.Created.UnixNano(), cell.chains, k.route.Spec.RegexPriority))
	for _, c := range candidates {
		w, err := wayOf(k, c, end)
		if err != nil {
			return nil, fmt.Errorf("path %q: %w", c.Path, err)
		}
		w.hosts = hosts
		cell.ways = append(cell.ways, w)
		if err := w.writeTo(h); err != nil {
			return nil, err
		}
	}
	sum := h.Sum128().Bytes()
	cell.digest = k.route.ID + hex.EncodeToString(sum[:])
	return cell, nil
}

func wayOf(k routeKey, c gateway.Candidate, end fate) (*way, error) {
	w := &way{Candidate: c, tier: c.Tier()}
	var err error
	if w.conditions, err = conditions(c); err != nil {
		return nil, err
	}
	list, err := entries(k, c, end)
	if err != nil {
		return nil, err
	}
	how, err := adapterOf(k.filter)
	if err != nil {
		return nil, err
	}
	w.then, err = leadTo(how, list...)
	return w, err
}

// leadTo is the action of routes of which one matches every request that gets
// there. All routes of a matcher come by here, so each one says whether it has a chain.
func leadTo(how adapter, list ...*routev3.Route) (onMatch, error) {
	for _, r := range list {
		if err := how.unchained(r); err != nil {
			return nil, err
		}
	}
	if len(list) == 1 {
		body, err := marshalRoute(list[0])
		return action("Route", body), err
	}
	all := &routev3.RouteList{Routes: list}
	if err := all.ValidateAll(); err != nil {
		return nil, err
	}
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(all)
	return action("RouteList", body), err
}

// writeTo adds what tables read of a way to a digest.
func (w *way) writeTo(h *xxh3.Hasher) error {
	writeField(h, fmt.Appendf(nil, "%q %+v", w.Path, w.tier))
	writeField(h, w.then.GetAction().GetTypedConfig().GetValue())
	for _, c := range w.conditions {
		body, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
		if err != nil {
			return err
		}
		writeField(h, body)
	}
	return nil
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

// fate is what happens to a matched request, apart from its path.
type fate struct {
	// filter is what the filter does on the route, and early what it does with answers that
	// come before the plugins.
	filter, early filtered
	// strips says that the filter strips prefixes, and not Envoy.
	strips bool
	// refuse answers instead of forwarding; why says for what reason.
	refuse *routev3.Route
	why    contract.Reason
	// host is the Host header; byName has each endpoint's own instead.
	host   string
	byName bool
	// broken is why the route is refused, if it should not be.
	broken error
}

const misconfigured = `{"message":"this route is misconfigured"}`

// fateOf decides between forwarding and refusing. A chain that cannot be encoded
// refuses: the request must neither pass without its plugins nor fall through to
// a less specific route.
func fateOf(k routeKey) fate {
	base := contract.Chain{Protocol: protocolOf(k.route.Spec), Issues: k.oauth}
	if k.service != nil {
		base.Service, base.ServicePlane = k.service.ID, k.servicePlane
	}
	f := fateBy(k, base)
	switch {
	case f.broken != nil:
		return fate{refuse: reply(503, misconfigured), why: contract.ReasonMisconfigured, broken: f.broken}
	case k.route.LeftOut:
		f.refuse, f.why = reply(503, misconfigured), contract.ReasonMisconfigured
		f.broken = fmt.Errorf("route %s is left out: another member of the group has its id", k.route.ID)
	case k.service == nil:
		f.refuse, f.why = reply(503, `{"message":"no Service found with those values"}`), contract.ReasonNoService
	case k.to.cluster == "":
		f.refuse, f.why = reply(503, misconfigured), contract.ReasonMisconfigured
		f.broken = fmt.Errorf("service %s has no cluster", k.service.ID)
	case !k.route.Spec.PreserveHost:
		f.host, f.byName = k.host, k.to.byName
	}
	return f
}

// fateBy has the adapter of the proxy carry the plugins of a route.
func fateBy(k routeKey, base contract.Chain) (f fate) {
	how, err := adapterOf(k.filter)
	if err != nil {
		return fate{broken: err}
	}
	carry := func(plugins [chain.MaxPlugins]chain.Attached) (filtered, error) {
		encoded, err := chain.Encode(base, plugins)
		if err != nil {
			return filtered{}, err
		}
		return filteredBy(how, encoded)
	}
	f.strips = how.strips()
	if f.filter, f.broken = carry(k.plugins); f.broken == nil {
		f.early, f.broken = carry([chain.MaxPlugins]chain.Attached{})
	}
	return f
}

// protocolOf is what the filter demands of requests before any plugin runs.
func protocolOf(r *gateway.Route) contract.Protocol {
	switch {
	case gateway.IsGRPC(r):
		return contract.ProtocolGRPC
	case gateway.IsWebSocket(r):
		return contract.ProtocolWebSocket
	}
	return ""
}

// entries lists the routes of one candidate, in the order in which they are
// tried. Few are better: each costs Envoy's main thread when it builds the table.
func entries(k routeKey, c gateway.Candidate, f fate) ([]*routev3.Route, error) {
	var out []*routev3.Route
	if gateway.HTTPSOnly(k.route.Spec) {
		out = insecure(k, c, f)
	}
	if f.refuse != nil {
		r := clone(f.refuse)
		r.Match = match(c, join{})
		return append(out, finish(about(r, contract.Refused, f.why, k.entity()), k, f.filter, nil)), nil
	}
	joins, err := joinsOf(c, k.service.Spec.Path)
	if err != nil {
		return nil, err
	}
	decision := contract.Undecided
	if f.filter.chain != nil {
		decision = contract.Allowed
	}
	for _, j := range joins {
		if j.strip != nil && f.filter.chain != nil && f.strips {
			j = join{strip: j.strip}
		} else {
			j.strip = nil
		}
		r := &routev3.Route{Match: match(c, j), Action: &routev3.Route_Route{Route: forward(k, f, j)}}
		if strips(c) && !gateway.IsRegexPath(c.Path) && j.strip == nil {
			r.RequestHeadersToAdd = []*corev3.HeaderValueOption{prefixOption(c.Path)}
		}
		out = append(out, finish(about(r, decision, "", k.entity()), k, f.filter, j.strip))
	}
	return out, nil
}

// prefixOption tells the upstream what was stripped, unless a trusted client has
// stripped something before; what others say is removed before.
func prefixOption(path string) *corev3.HeaderValueOption {
	option := overwrite(headerForwardedPrefix, plan.Literal(path))
	option.AppendAction = corev3.HeaderValueOption_ADD_IF_ABSENT
	return option
}

// finish names a route and has it say to the filter what that does on it.
func finish(r *routev3.Route, k routeKey, f filtered, strip *contract.Strip) *routev3.Route {
	r.Name = k.name()
	f.on(r, strip)
	return r
}

// match selects a join. What the candidate demands was asked for on the way here.
func match(c gateway.Candidate, j join) *routev3.RouteMatch {
	switch {
	case j.whole != "":
		return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: j.whole}}}
	case c.Path == "" || gateway.IsRegexPath(c.Path):
		return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
	}
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: c.Path}}
}

// forward sends a request to the service. The whole answer may take any time,
// as long as bytes move.
func forward(k routeKey, f fate, j join) *routev3.RouteAction {
	out := &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: k.to.cluster},
		PrefixRewrite:    j.rewrite,
		Timeout:          durationpb.New(0),
		IdleTimeout:      durationpb.New(idle(k.service)),
	}
	if j.pattern != "" {
		out.RegexRewrite = &matcherv3.RegexMatchAndSubstitute{
			Pattern: &matcherv3.RegexMatcher{Regex: j.pattern}, Substitution: j.substitution,
		}
	}
	switch {
	case f.byName:
		out.HostRewriteSpecifier = &routev3.RouteAction_AutoHostRewrite{AutoHostRewrite: wrapperspb.Bool(true)}
	case f.host != "":
		out.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: f.host}
	}
	if gateway.IsGRPC(k.route.Spec) {
		// The listener lets all routes upgrade; gRPC has no use for it.
		out.UpgradeConfigs = []*routev3.RouteAction_UpgradeConfig{{UpgradeType: "websocket", Enabled: wrapperspb.Bool(false)}}
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
