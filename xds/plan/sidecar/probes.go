package sidecar

import (
	"fmt"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// Virtual probes are for checkers without a certificate of the mesh, such as the agent of a
// machine. Their listener leads the paths that a dataplane lists to the workload, and nothing else.
// No policy is chosen for it: permissions and tokens would keep the checkers out.

// probeListener is the name of the listener that answers probes, and of its route table.
const probeListener = "probe:listener"

const (
	// probeTimeout is more than checkers wait.
	probeTimeout = time.Minute
	// probeRead is how long a checker may take to send its request.
	probeRead = 10 * time.Second
)

// probeRoutesKey is everything that the route table of probes is made from: lines of the path,
// the path of the workload and its cluster, with tabs between, of which none contains any.
type probeRoutesKey string

// probing makes the route table of the probes of a class.
func (p *Planner) probing(c *class, into *part) []*resource.Resource {
	if c.shape.Probes == nil {
		return nil
	}
	var inbounds []*mesh.Inbound
	for i := range c.shape.Inbounds {
		if in := &c.shape.Inbounds[i]; in.Scraping == nil {
			inbounds = append(inbounds, &mesh.Inbound{Port: in.Port, ServicePort: in.WorkloadPort})
		}
	}
	var key strings.Builder
	for _, e := range c.shape.Probes.Endpoints {
		i := mesh.Probed(inbounds, e.InboundPort)
		if i < 0 { // it was stored by other rules
			into.failures = append(into.failures, plan.Failure{Cell: probeListener, Err: fmt.Errorf("%s is not answered: no inbound has port %d", e.Path, e.InboundPort)})
			continue
		}
		key.WriteString(e.Path + "\t" + e.InboundPath + "\t" + c.shape.Inbounds[i].Cluster + "\n")
	}
	r, err := of(p.cells.probings, p.round, probeRoutesKey(key.String()), probeRoutes)
	var out part
	out.keep(&out.routes, nil, probeListener, r, err)
	into.failures = append(into.failures, out.failures...)
	return out.routes
}

func probeRoutes(k probeRoutesKey) (*resource.Resource, error) {
	host := &routev3.VirtualHost{Name: "probe", Domains: []string{"*"}}
	for line := range strings.Lines(string(k)) {
		path, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		to, cluster, _ := strings.Cut(rest, "\t")
		host.Routes = append(host.Routes, &routev3.Route{
			Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: path}, Headers: []*routev3.HeaderMatcher{{
				Name: ":method", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
					MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "GET"},
				}},
			}}},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{
				ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster}, PrefixRewrite: to, Timeout: durationpb.New(probeTimeout),
			}},
		})
	}
	return plan.Freeze(resource.Route, probeListener, &routev3.RouteConfiguration{
		Name: probeListener, VirtualHosts: []*routev3.VirtualHost{host}, ValidateClusters: wrapperspb.Bool(false),
		RequestHeadersToRemove: []string{mesh.HeaderTags},
	})
}

// probeKey is everything that the listener of probes is made from.
type probeKey struct {
	address     string
	port        uint32
	transparent bool
}

// probedAt is where the probes of a proxy are answered; empty if there are none.
func (x *proxy) probedAt() sockets {
	if x.class.shape.Probes == nil || len(x.listening) == 0 {
		return nil
	}
	at, err := addressOf(x.home(), x.class.shape.Probes.Port)
	if err != nil {
		return nil
	}
	return sockets{at: true}
}

// home is where the proxy listens unless an inbound says otherwise; see listening.
func (x *proxy) home() string { return x.listening[len(x.listening)-1] }

// probe makes the listener of the probes of a proxy. It gives way to whatever else listens there:
// callers count for more than checkers.
func (p *Planner) probe(x *proxy, taken sockets) {
	s := &x.class.shape
	if s.Probes == nil || len(x.listening) == 0 {
		return
	}
	k := probeKey{address: x.home(), port: s.Probes.Port, transparent: s.Transparent}
	at, err := addressOf(k.address, k.port)
	switch {
	case err != nil:
	case taken.has(at):
		err = fmt.Errorf("an inbound listens on %s", at)
	default:
		err = p.givesWay(x, at)
	}
	if err != nil {
		x.own.failures = append(x.own.failures, plan.Failure{Cell: probeListener, Err: fmt.Errorf("probes are not answered: %w", err)})
		return
	}
	l, err := of(p.cells.probes, p.round, k, probed)
	x.own.keep(&x.own.listeners, nil, probeListener, l, err)
}

// probed builds the listener of probes. What callers say about themselves does not reach the
// workload, which may believe it.
func probed(k probeKey) (*resource.Resource, error) {
	m := &hcmv3.HttpConnectionManager{
		StatPrefix: statName(probeListener), CodecType: hcmv3.HttpConnectionManager_AUTO,
		RouteSpecifier:             &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{ConfigSource: plan.ADS(), RouteConfigName: probeListener}},
		ServerHeaderTransformation: hcmv3.HttpConnectionManager_PASS_THROUGH,
		LocalReplyConfig:           plan.LocalReplies(),
		CommonHttpProtocolOptions:  &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(probeTimeout)},
		StreamIdleTimeout:          durationpb.New(probeTimeout),
		RequestHeadersTimeout:      durationpb.New(probeRead),
		RequestTimeout:             durationpb.New(probeRead),
	}
	if err := early(m, saidByStrangers()); err != nil {
		return nil, err
	}
	filter, err := packHTTP(m, &draft.Slots{})
	if err != nil {
		return nil, err
	}
	l := &listenerv3.Listener{
		Name: probeListener, Address: socket(k.address, k.port), TrafficDirection: corev3.TrafficDirection_INBOUND, EnableReusePort: alone(),
		FilterChains:                         []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{filter}}},
		MaxConnectionsToAcceptPerSocketEvent: wrapperspb.UInt32(plan.Accepts),
	}
	if k.transparent {
		l.BindToPort = wrapperspb.Bool(false)
	}
	return plan.Freeze(resource.Listener, l.Name, l)
}
