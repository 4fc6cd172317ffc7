package sidecar

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

// Front makes the one listener that gateways of a mesh have in place of the listeners and route
// tables of their outbounds. Everything else is as at any proxy: outbounds choose policies, lead
// to destinations and draft their routes, and changes reach them in the same way. What a front
// makes must depend only on its arguments. Otherwise cells would not be rebuilt when it
// changes.
type Front interface {
	// Socket returns where the proxies of a gateway listen, by the tags of the gateway.
	Socket(gateway mesh.Tags) (address string, port uint32)
	// Lead adds to the route table what leads to one outbound. Policies have edited the routes
	// already, and the routes contain everything that concerns them.
	Lead(into, outbound *draft.Routes) error
	// Listener completes the listener, before policies on whole proxies edit it.
	Listener(d *draft.Outbound) error
}

// way holds what leads to one outbound of a front, and the way of the next outbound. A whole
// list of ways is comparable.
type way struct {
	routes *draft.Routes
	rest   any
}

// frontRoutesKey holds everything that the route table of a front is made of.
type frontRoutesKey struct {
	mesh, name, service string
	// ways are the ways of the outbounds, nil if there are none.
	ways any
}

// frontName returns the name of the listener of a front and of its route table.
func frontName(address string, port uint32) string { return gatewayPrefix + hostPort(address, port) }

// behind makes the routes of an outbound that is behind a front, which only supports HTTP.
// Routes that cannot be made keep their last version if its clusters still exist.
func (p *Planner) behind(o *outbound, k outboundRoutesKey) {
	was := o.way
	o.way = nil
	fail := func(err error) {
		o.part.failures = append(o.part.failures, plan.Failure{Cell: k.name, Err: err, Kept: o.way != nil})
	}
	if !mesh.IsHTTP(k.protocol) {
		fail(fmt.Errorf("%s speaks %s, and the gateway HTTP", k.service, k.protocol))
		return
	}
	d, err := of(p.cells.ways, p.round, k, p.carried)
	if err == nil {
		o.way = d
		return
	}
	if was != nil && o.part.holds(was) {
		o.way = was
	}
	fail(fmt.Errorf("build %s: %w", k.name, err))
}

// holds reports whether all clusters to which some routes lead exist.
func (a *part) holds(d *draft.Routes) bool {
	missing := func(cluster string) bool {
		return !slices.ContainsFunc(a.clusters, func(r *resource.Resource) bool { return r.Name == cluster })
	}
	for action := range d.Actions() {
		if c := action.GetCluster(); c != "" && missing(c) {
			return false
		}
		for _, w := range action.GetWeightedClusters().GetClusters() {
			if missing(w.GetName()) {
				return false
			}
		}
	}
	return true
}

// stand makes the front of a reach of gateways, after its outbounds were built. What cannot be
// made keeps its last version.
func (p *Planner) stand(r *reach) {
	if r.shape.Gateway == nil {
		return
	}
	old := r.front
	if err := guard(func() { p.makeFront(r) }); err != nil {
		r.front = old
		r.front.failures = []plan.Failure{{Cell: r.shape.Gateway.Service(), Err: err, Kept: true}}
	}
}

func (p *Planner) makeFront(r *reach) {
	old := r.front
	r.front = part{}
	address, port := p.front.Socket(r.shape.Gateway)
	rk := frontRoutesKey{mesh: p.facts.mesh, name: frontName(address, port), service: r.shape.Gateway.Service()}
	for _, o := range slices.Backward(r.outbounds) {
		if o.way != nil {
			rk.ways = way{o.way, rk.ways}
		}
	}
	table, err := of(p.cells.fronts, p.round, rk, p.frontRoutes)
	if !r.front.keep(&r.front.routes, old.routes, rk.name, table, err) {
		return // a listener would wait for its routes, and all others with it
	}
	chosen := p.spread(r.key.proxy, aboutOutbounds)
	p.forService(r.sources, mesh.PassThrough, chosen, &r.front)
	r.front.learned = p.learnAll(nil, chosen)
	p.contributed(chosen, &r.front)
	k := outboundKey{
		mesh: p.facts.mesh, address: address, port: port, tags: r.shape.Gateway.String(), protocol: mesh.ProtocolHTTP, routes: rk.name, front: true,
		source:     r.shape.Source,
		selections: p.only(chosen, func(pol *policy.Policy) bool { return pol.Outbound != nil }),
	}
	l, err := of(p.cells.outbounds, p.round, k, p.outbound)
	r.front.keep(&r.front.listeners, old.listeners, k.name(), l, err)
}

// frontRoutes builds the one route table of a front.
func (p *Planner) frontRoutes(k frontRoutesKey) (*resource.Resource, error) {
	d := routes(k.mesh, k.name, k.service, mesh.ProtocolHTTP)
	d.Proto.RequestHeadersToRemove = []string{mesh.HeaderTags}
	for w, ok := k.ways.(way); ok; w, ok = w.rest.(way) {
		if err := p.front.Lead(d, w.routes.Clone()); err != nil {
			return nil, err
		}
	}
	return plan.Freeze(resource.Route, k.name, d.Proto)
}

// carried drafts routes of an outbound that themselves contain what its policies demand of its
// virtual host and of its listener, because outbounds behind a front share both.
func (p *Planner) carried(k outboundRoutesKey) (*draft.Routes, error) {
	d, err := p.leading(k)
	if err != nil {
		return nil, err
	}
	l := &draft.Outbound{Service: d.Service, Protocol: d.Protocol, HTTP: httpManager("", "")}
	if err := p.edit(k.selections, func(e *edits, s *chosen) error {
		if !aboutOutbounds(e.Attachment) {
			return nil // it edits the listener itself
		}
		return e.outbound(l, s)
	}); err != nil {
		return nil, err
	}
	if len(l.Filters.Filters()) > 0 {
		return nil, fmt.Errorf("a policy on %s has filters in a listener that others share", d.Service)
	}
	bare := routes(d.Mesh, d.Proto.GetName(), d.Service, d.Protocol).Proto
	bare.RequestHeadersToRemove, bare.VirtualHosts = d.Proto.GetRequestHeadersToRemove(), d.Proto.GetVirtualHosts()
	if !proto.Equal(bare, d.Proto) {
		return nil, fmt.Errorf("a policy on %s says something of a route table that others share", d.Service)
	}
	return d, d.Carry(l.HTTP.GetStreamIdleTimeout())
}
