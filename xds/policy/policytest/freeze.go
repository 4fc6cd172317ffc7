package policytest

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// Freeze makes resources from the drafts: two listeners, a cluster, and for HTTP the route
// tables with the destinations of the split. It validates every message by the rules of its
// proto.
func (d *Drafts) Freeze() ([]*resource.Resource, error) {
	in := listener("inbound:127.0.0.1:8080", 8080)
	if err := chain(in, d.Inbound.AuthenticatedNetwork, d.Inbound.HTTP, d.Inbound.AuthenticatedFilters, d.Inbound.TCP); err != nil {
		return nil, err
	}
	out := proto.CloneOf(d.Outbound.Proto)
	if err := chain(out, nil, d.Outbound.HTTP, d.Outbound.Filters, d.Outbound.TCP); err != nil {
		return nil, err
	}
	cluster := proto.CloneOf(d.Cluster.Proto)
	options, err := draft.Pack(d.Cluster.HTTP)
	if err != nil {
		return nil, err
	}
	cluster.TypedExtensionProtocolOptions = map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options}
	messages := []named{{resource.Listener, in}, {resource.Listener, out}, {resource.Cluster, cluster}}
	for _, r := range []*draft.Routes{d.OutboundRoutes, d.InboundRoutes, d.splitRoutes()} {
		if r != nil {
			messages = append(messages, named{resource.Route, r.Proto})
		}
	}
	var frozen []*resource.Resource
	for _, n := range messages {
		r, err := plan.Freeze(n.t, n.m.GetName(), n.m)
		if err != nil {
			return nil, err
		}
		frozen = append(frozen, r)
	}
	return frozen, nil
}

type named struct {
	t resource.TypeURL
	m interface {
		proto.Message
		GetName() string
	}
}

// chain gives a listener its one filter chain.
func chain(l *listenerv3.Listener, network []*listenerv3.Filter, http *hcmv3.HttpConnectionManager, slots draft.Slots, tcp *tcpv3.TcpProxy) error {
	c := &listenerv3.FilterChain{Filters: network}
	var last *listenerv3.Filter
	var err error
	if http != nil {
		http = proto.CloneOf(http)
		end, e := router()
		if e != nil {
			return e
		}
		http.HttpFilters = append(slots.Filters(), end)
		last, err = draft.NetworkFilter("envoy.filters.network.http_connection_manager", http)
	} else {
		last, err = draft.NetworkFilter("envoy.filters.network.tcp_proxy", proto.CloneOf(tcp))
	}
	c.Filters = append(c.Filters, last)
	l.FilterChains = []*listenerv3.FilterChain{c}
	return err
}

// splitRoutes returns a route table for a split, as a plan would make it.
func (d *Drafts) splitRoutes() *draft.Routes {
	if d.Split == nil || d.OutboundRoutes == nil {
		return nil
	}
	r := routes("split", service, d.Protocol, false)
	r.Host.Routes = nil
	for _, rule := range d.Split.Rules {
		route := proto.CloneOf(rule.Headers)
		action := proto.CloneOf(rule.Action)
		lead(action, rule.To)
		route.Match, route.Action = rule.Match, &routev3.Route_Route{Route: action}
		r.Host.Routes = append(r.Host.Routes, route)
	}
	action := &routev3.RouteAction{}
	lead(action, d.Split.Otherwise)
	r.Host.Routes = append(r.Host.Routes, &routev3.Route{
		Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		Action: &routev3.Route_Route{Route: action},
	})
	for a := range r.Actions() {
		a.HashPolicy = d.Split.Hash
	}
	return r
}

func lead(a *routev3.RouteAction, to []draft.Destination) {
	w := &routev3.WeightedCluster{}
	for _, t := range to {
		w.Clusters = append(w.Clusters, &routev3.WeightedCluster_ClusterWeight{Name: t.Tags.String(), Weight: wrapperspb.UInt32(t.Weight)})
	}
	a.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: w}
}
