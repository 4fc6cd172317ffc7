package sidecar

import (
	"fmt"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/selection"
)

// builtinHost is a virtual host of a gateway with its routes as a comparable list.
type builtinHost struct {
	name   string
	routes any
}

// step is one route, and the step of the next one. A whole list of steps is comparable.
type step struct {
	route *routev3.Route
	rest  any
}

// towardsKey is one destination of a rule as its routes know it, and that of the next one.
type towardsKey struct {
	cluster, tags string
	kind          int
	lead, rest    any
}

// builtinRouteKey is everything that a route of a gateway is made of.
type builtinRouteKey struct {
	mesh, name, service, protocol string
	rule                          *mesh.HTTPGatewayRule
	match                         *mesh.GatewayMatch
	port                          uint32
	secure                        bool
	// targets are the destinations of the rule, in order, as towardsKeys.
	targets any
	// selections are those for the first backend.
	selections *policy.Choices
}

// builtinHosts makes the routes of a listener. A route that cannot be made answers with an error.
func (p *Planner) builtinHosts(o *outbound) (out []builtinHost) {
	for i := range o.listener.Hosts {
		h := &o.listener.Hosts[i]
		host := builtinHost{name: h.Name}
		for _, e := range slices.Backward(h.Entries) {
			k := p.builtinRouteKey(o, &e)
			r, err := of(p.cells.builtinRoutes, p.round, k, p.builtinRoute)
			if err != nil {
				o.part.failures = append(o.part.failures, plan.Failure{Cell: o.cell() + " " + e.Route.Name, Err: fmt.Errorf("requests are answered with 500: %w", err)})
				r = unmadeRoute(e.Match)
			}
			host.routes = step{r, host.routes}
		}
		out = append(out, host)
	}
	return out
}

func (p *Planner) builtinRouteKey(o *outbound, e *selection.GatewayEntry) builtinRouteKey {
	k := builtinRouteKey{
		mesh: p.facts.mesh, name: e.Route.Name, rule: e.Rule, match: e.Match, port: o.listener.Spec.Port, secure: o.listener.Spec.Protocol == mesh.ListenerHTTPS,
		protocol: mesh.ProtocolHTTP,
	}
	all := e.Rule.Destinations()
	for i, tags := range slices.Backward(all) {
		b := o.backends[tags.String()]
		k.targets = towardsKey{b.cluster, tags.String(), b.kind, b.lead, k.targets}
		if i == 0 && len(e.Rule.Backends) > 0 {
			k.service, k.selections = tags.Service(), b.choices
			if mesh.IsHTTP(b.protocol) {
				k.protocol = b.protocol
			}
		}
	}
	return k
}

// unmadeRoute answers requests that a route matches that cannot be made, so that no other route
// takes them.
func unmadeRoute(m *mesh.GatewayMatch) *routev3.Route {
	return &routev3.Route{Match: gatewayMatch(m), Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 500}}}
}

// builtinRoute makes one route of a gateway. Policies edit it as the only route of a table, and
// what they say of the table becomes part of the route.
func (p *Planner) builtinRoute(k builtinRouteKey) (*routev3.Route, error) {
	var clusters []string
	for t, ok := k.targets.(towardsKey); ok; t, ok = t.rest.(towardsKey) {
		clusters = append(clusters, t.cluster)
	}
	d := routes(k.mesh, k.name, k.service, k.protocol)
	route := gatewayRoute(&k, clusters)
	d.Host.Routes = []*routev3.Route{route}
	if err := p.askBackends(d, &k); err != nil {
		return nil, err
	}
	if err := p.editBuiltin(d, &k); err != nil {
		return nil, err
	}
	refuse(d.Host.Routes)
	if err := route.ValidateAll(); err != nil {
		return nil, fmt.Errorf("validate the route: %w", err)
	}
	return route, nil
}

// askBackends asks backends outside the mesh for their own host, if the rule says so.
func (p *Planner) askBackends(d *draft.Routes, k *builtinRouteKey) error {
	if !slices.ContainsFunc(k.rule.Filters, func(f mesh.GatewayFilter) bool { return f.Rewrite != nil && f.Rewrite.HostToBackendHostname }) {
		return nil
	}
	named, leads := map[string]mesh.Tags{}, map[string]towardsKey{}
	for t, ok := k.targets.(towardsKey); ok; t, ok = t.rest.(towardsKey) {
		named[t.cluster], leads[t.cluster] = tagsOf(t.tags), t
	}
	for _, r := range d.Routed(named) {
		for i := range r.Targets {
			if t := leads[r.Targets[i].Cluster]; t.lead != nil {
				if err := p.kinds[t.kind].Route(&r.Targets[i], t.lead); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// editBuiltin gives policies their turn at a route, and at the listener as far as a route can say
// the same.
func (p *Planner) editBuiltin(d *draft.Routes, k *builtinRouteKey) error {
	if k.selections == nil {
		return nil
	}
	if err := p.edit(k.selections, func(e *edits, s *chosen) error { return e.outboundRoutes(d, s) }); err != nil {
		return err
	}
	l := &draft.Outbound{Service: d.Service, Protocol: d.Protocol, HTTP: httpManager("", "")}
	if err := p.edit(k.selections, func(e *edits, s *chosen) error { return e.outbound(l, s) }); err != nil {
		return err
	}
	prepared, err := p.prepared(false)
	if err != nil {
		return err
	}
	for _, f := range l.Filters.Filters() {
		if !slices.ContainsFunc(prepared.Filters(), func(have *hcmv3.HttpFilter) bool { return have.GetName() == f.GetName() }) {
			return fmt.Errorf("a policy on %s has a filter in a listener that others share", d.Service)
		}
	}
	bare := routes(d.Mesh, d.Proto.GetName(), d.Service, d.Protocol).Proto
	bare.VirtualHosts = d.Proto.GetVirtualHosts()
	if !proto.Equal(bare, d.Proto) {
		return fmt.Errorf("a policy on %s says something of a route table that others share", d.Service)
	}
	return d.Carry(l.HTTP.GetStreamIdleTimeout())
}

// prepared are the filters that policies have in every HTTP listener of a gateway.
func (p *Planner) prepared(bare bool) (draft.Slots, error) {
	d := &draft.Outbound{Bare: bare}
	for _, pol := range p.policies {
		if pol.Prepare != nil {
			if err := pol.Prepare(d); err != nil {
				return draft.Slots{}, err
			}
		}
	}
	return d.Filters, nil
}

// builtinTableKey is everything that a route table of a gateway is made of.
type builtinTableKey struct {
	mesh, name   string
	secure, bare bool
	// hosts are builtinHosts, as a list.
	hosts any
	// elsewhere are the names of hosts that other chains of the listener are for, joined by
	// commas.
	elsewhere string
}

// namedHosts is one host with the policies on its listener, and the namedHosts of the next ones.
type namedHosts struct {
	builtinHost

	guards *policy.Choices
	// closed says that it answers every request with 503.
	closed bool
	rest   any
}

// builtinTable builds a route table of a gateway.
func (p *Planner) builtinTable(k builtinTableKey) (*resource.Resource, error) {
	var plugins []string
	t := routes(k.mesh, k.name, k.name, mesh.ProtocolHTTP).Proto
	t.RequestHeadersToRemove = []string{mesh.HeaderTags}
	// Strangers are told nothing of how proxies behind the gateway work.
	t.ResponseHeadersToRemove = []string{"x-envoy-upstream-service-time"}
	t.IgnorePortInHostMatching = true
	t.VirtualHosts = nil
	if k.secure {
		t.ResponseHeadersToAdd = []*corev3.HeaderValueOption{strictTransport()}
	}
	for h, ok := k.hosts.(namedHosts); ok; h, ok = h.rest.(namedHosts) {
		v := &routev3.VirtualHost{Name: h.name, Domains: []string{h.name}, Routes: []*routev3.Route{traceless()}}
		if strings.HasPrefix(h.name, mesh.AnyHost) {
			v.Routes = append(v.Routes, oneHost())
		}
		for s, ok := h.routes.(step); ok; s, ok = s.rest.(step) {
			v.Routes = append(v.Routes, s.route)
		}
		if h.closed {
			v.Routes = closedHost()
		}
		d := &draft.Routes{Proto: t, Host: v, Mesh: k.mesh, Service: k.name, Protocol: mesh.ProtocolHTTP, Plugins: plugins, Bare: k.bare}
		if err := p.edit(h.guards, func(e *edits, s *chosen) error { return e.listenerRoutes(d, s) }); err != nil {
			return nil, err
		}
		plugins = d.Plugins
		t.VirtualHosts = append(t.VirtualHosts, v)
	}
	if domains := words(k.elsewhere); len(domains) > 0 {
		t.VirtualHosts = append(t.VirtualHosts, &routev3.VirtualHost{
			Name: apart + "elsewhere", Domains: domains, Routes: []*routev3.Route{{
				Match: everything(), Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 421}},
			}},
		})
	}
	r, err := plan.Freeze(resource.Route, k.name, t)
	if err == nil {
		r.Plugins = plugins
	}
	return r, err
}

// strictTransport tells browsers to come by TLS from now on (RFC 6797).
func strictTransport() *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: "strict-transport-security", Value: "max-age=31536000"},
		AppendAction: corev3.HeaderValueOption_ADD_IF_ABSENT,
	}
}

// oneHost refuses requests with two hosts (RFC 9112 section 3.2). Envoy joins them by a comma, so only
// a wildcard takes them, and whoever comes after it may read the first one or the last.
func oneHost() *routev3.Route {
	hosts := &routev3.HeaderMatcher{Name: ":authority", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
		StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Contains{Contains: ","}},
	}}
	return &routev3.Route{
		Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}, Headers: []*routev3.HeaderMatcher{hosts}},
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 400}},
	}
}

// traceless refuses TRACE, which would show a client what proxies have added to its request
// (RFC 9110 section 9.3.8).
func traceless() *routev3.Route {
	return &routev3.Route{
		Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}, Headers: []*routev3.HeaderMatcher{exactly(":method", "TRACE")}},
		Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 405}},
	}
}
