package sidecar

import (
	"errors"
	"fmt"
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/selection"
)

// A builtin gateway has an outbound for each of its listeners, which leads to what the routes for
// that listener name. Clusters, assignments and what policies do to them are those of other
// proxies. The listeners with one port share a resource, which is built when its outbounds are.

// errNoGateway says why a gateway listens to nothing.
var errNoGateway = errors.New("no MeshGateway of the mesh selects this gateway, so it has no listeners")

// gatewayListenerName returns the name of the listener on one port of a gateway. It does not
// depend on what the listener is for, so that a change of that replaces it in place.
func gatewayListenerName(address string, port uint32) string {
	return gatewayPrefix + hostPort(address, port)
}

// gatewayTable returns the name of a route table of a gateway.
func gatewayTable(gateway string, l *mesh.GatewayListener, host string) string {
	return fmt.Sprintf("%s:%s:%d:%s", gateway, l.Protocol, l.Port, host)
}

// listBuiltin makes the outbounds of a gateway. All have to be built.
func (p *Planner) listBuiltin(r *reach) {
	before := map[string]*outbound{}
	for _, o := range r.outbounds {
		before[o.id()] = o
	}
	r.outbounds, r.ports, r.refused = nil, map[uint16][]*outbound{}, nil
	r.gateway = selection.GatewayOf(p.state, r.shape.Gateway)
	if r.gateway == nil {
		r.refused = []plan.Failure{{Cell: gatewayPrefix + r.shape.Gateway.Service(), Err: errNoGateway, Awaited: true}}
		r.gateway = &selection.Gateway{}
	}
	for i := range r.gateway.Listeners {
		l := &r.gateway.Listeners[i]
		at, err := addressOf(r.shape.At, l.Spec.Port)
		if err != nil {
			r.refused = append(r.refused, plan.Failure{Cell: gatewayListenerName(r.shape.At, l.Spec.Port), Err: err})
			continue
		}
		o := &outbound{reach: r, tags: gatewayTable(r.gateway.Chosen.Name, l.Spec, l.Host), shape: selection.Outbound{Address: r.shape.At, Port: l.Spec.Port, Tags: l.Tags}}
		if old := before[o.id()]; old != nil {
			delete(before, o.id())
			o, old.shape = old, o.shape
		}
		o.listener, o.at = l, at
		r.stale[o] = struct{}{}
		r.outbounds = append(r.outbounds, o)
		if len(r.ports[at.Port()]) == 0 {
			r.ports[at.Port()] = []*outbound{o}
		}
	}
	for _, o := range before {
		p.unlink(o)
		delete(r.stale, o)
	}
}

// gatewayKind takes a changed MeshGateway or MeshGatewayRoute and marks the gateways that it was
// or is for.
func (p *Planner) gatewayKind(before *view.Mesh, key model.Key) {
	for _, r := range p.reaches {
		if r.shape.Gateway == nil || !p.concerns(before, r, key) {
			continue
		}
		r.relist = true
		p.moved[r] = struct{}{}
	}
}

func (p *Planner) concerns(before *view.Mesh, r *reach, key model.Key) bool {
	if key.Kind == mesh.MeshGateways.Name {
		return selection.ChosenGateway(before, r.shape.Gateway) != selection.ChosenGateway(p.state, r.shape.Gateway)
	}
	if r.gateway == nil {
		return true
	}
	for _, m := range [...]*view.Mesh{before, p.state} {
		route := m.Policy(mesh.MeshGatewayRoutes, key.Name)
		if route != nil && slices.ContainsFunc(r.gateway.Listeners, func(l selection.GatewayListener) bool { return selection.RouteSelects(route, l.Tags) }) {
			return true
		}
	}
	return false
}

// backend is a destination of a gateway's listener with all that its routes are made of.
type backend struct {
	tags     mesh.Tags
	cluster  string
	protocol string
	kind     int
	lead     any
	// choices are those of the policies that edit listeners and routes.
	choices *policy.Choices
}

// makeBuiltin makes the clusters of a listener and, for HTTP, its routes.
func (p *Planner) makeBuiltin(o *outbound) {
	old, wants, l := o.part, o.wants, o.listener
	o.part, o.wants, o.forbidden, o.idle = part{}, nil, nil, nil
	if l.LeftOut > 0 {
		o.part.failures = append(o.part.failures, plan.Failure{
			Cell: o.cell(), Err: fmt.Errorf("the gateway has more than %d routes, or too long ones, counted for each host: %d of this listener are left out", selection.MostEntries, l.LeftOut),
		})
	}
	outer := p.spread(o.reach.key.proxy, aboutOutbounds)
	destinations := l.Destinations()
	var services []string
	for _, tags := range destinations {
		if s := tags.Service(); !slices.Contains(services, s) {
			services = append(services, s)
		}
	}
	p.link(o, services)
	o.unserved = slices.DeleteFunc(slices.Clone(services), func(s string) bool { _, d := p.destination(s); return d != nil })
	o.backends = make(map[string]*backend, len(destinations))
	for _, tags := range destinations {
		b := &backend{tags: tags, protocol: p.backendProtocol(l.Spec, tags)}
		b.cluster = p.buildDestination(o, &old, wants, outer, tags, b.protocol)
		var d view.Destination
		b.kind, d = p.destination(tags.Service())
		b.lead = p.kinds[b.kind].Lead(tags, d)
		b.choices = p.only(p.atDestination(o, outer, tags), func(pol *policy.Policy) bool {
			return pol.Gateway && (pol.Outbound != nil || pol.OutboundRoutes != nil || pol.Route != nil || pol.Target != nil)
		})
		o.backends[tags.String()] = b
	}
	if isHTTPListener(l.Spec) {
		o.hosts = p.builtinHosts(o)
	}
}

// atDestination chooses the policies for a destination of an outbound.
func (p *Planner) atDestination(o *outbound, outer picks, tags mesh.Tags) picks {
	chosen := p.blank(atDestination)
	copy(chosen, outer)
	if o.listener == nil {
		p.forConnection(o.reach.sources, tags.Service(), policy.AtDestination, 0, chosen)
		return chosen
	}
	for i, pol := range p.policies {
		if pol.Gateway && aboutOutbounds(pol.Attachment) {
			chosen[i] = p.choose(pol, selection.OnGateway(p.room[:0], p.state, pol, o.listener.Tags, tags)...)
		}
	}
	return chosen
}

func isHTTPListener(l *mesh.GatewayListener) bool {
	return l.Protocol == mesh.ListenerHTTP || l.Protocol == mesh.ListenerHTTPS
}

// backendProtocol returns what a gateway speaks with a destination. Requests to a service that
// does not say what it speaks are those of HTTP/1.1.
func (p *Planner) backendProtocol(l *mesh.GatewayListener, tags mesh.Tags) string {
	if !isHTTPListener(l) {
		return mesh.ProtocolTCP
	}
	_, d := p.destination(tags.Service())
	var spoken, served []string
	for _, e := range endpointsOf(d) {
		served = append(served, e.Tags.Protocol())
		if mesh.Matches(tags, e.Tags) {
			spoken = append(spoken, e.Tags.Protocol())
		}
	}
	if len(spoken) == 0 {
		spoken = served
	}
	if len(spoken) == 0 {
		return mesh.ProtocolHTTP
	}
	if common := protocolOf(spoken); mesh.IsHTTP(common) {
		return common
	}
	return overTCP
}

// overTCP is what a gateway speaks with a service of which the mesh knows only that it takes
// connections: HTTP/1.1, which proxies there pass on as it comes.
const overTCP = "http over tcp"

// cell names an outbound in failures.
func (o *outbound) cell() string {
	switch {
	case o.listener != nil:
		return o.tags
	case o.direct:
		return directPrefix + ":" + o.shape.Tags.Service()
	}
	return outboundName(o.shape.Address, o.shape.Port)
}

// listenerName returns the name of the listener in which an outbound is.
func (o *outbound) listenerName() string {
	if o.listener != nil {
		return gatewayListenerName(o.shape.Address, o.shape.Port)
	}
	return outboundName(o.shape.Address, o.shape.Port)
}
