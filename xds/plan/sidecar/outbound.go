package sidecar

import (
	"net/netip"
	"slices"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/selection"
)

// outbound is one port through which the proxies of a reach call a service.
type outbound struct {
	reach *reach
	shape selection.Outbound
	// at is the address on which it listens.
	at   netip.AddrPort
	tags string
	// shared says that other outbounds of the reach lead to the same service, perhaps by other
	// tags. The names of their route tables then contain the address.
	shared bool
	// split is the last split that could be made.
	split *draft.Split
	// services are the services whose endpoints are in the clusters.
	services []string
	// unserved are those services that no inbound of the mesh serves.
	unserved []string
	// forbidden are those services that the proxies may not call.
	forbidden []string
	// idle says which fields of the chosen policies have no effect here, and what is not called
	// because there is no egress.
	idle []plan.Failure
	// wants are its clusters under their own names. renamed are those that have another name,
	// because another outbound wants a cluster of that name with other settings.
	wants   []want
	renamed renames
	part    part
	// direct says that it is the direct access to a service, whose instances are at instances.
	direct    bool
	instances []netip.AddrPort
	// listener is what it is for, at a builtin gateway, backends are its destinations by their
	// tags, and hosts its routes. All are nil elsewhere.
	listener *selection.GatewayListener
	backends map[string]*backend
	hosts    []builtinHost
	// guards are the policies on the listener. waits says that something is being read for them, and
	// shown is what there was before.
	guards *policy.Choices
	waits  bool
	shown  shown
}

// id returns a text that is equal for outbounds that are built alike.
func (o *outbound) id() string {
	return hostPort(o.shape.Address, o.shape.Port) + " " + o.tags + " " + strconv.FormatBool(o.shared)
}

func (o *outbound) routeTable() string {
	name := outboundPrefix + o.shape.Tags.Service()
	if o.shared {
		name += ":" + hostPort(o.shape.Address, o.shape.Port)
	}
	return name
}

// buildOutbound makes everything of an outbound. A part that cannot be made keeps its last
// version. A panic, for example of a policy that looks something up, is a failure of this
// outbound only.
func (p *Planner) buildOutbound(o *outbound) {
	old, wants := o.part, o.wants
	if err := guard(func() { p.makeOutbound(o) }); err != nil {
		o.part, o.wants = old, wants
		o.part.learned = unknown
		o.part.clusters = p.stillPermitted(o.reach, &old, p.fit(&old))
		o.part.failures = []plan.Failure{{Cell: o.cell(), Err: err, Kept: true}}
	}
}

func (p *Planner) makeOutbound(o *outbound) {
	if o.listener != nil {
		p.makeBuiltin(o)
		return
	}
	if o.direct {
		p.makeDirect(o)
		return
	}
	old, wants := o.part, o.wants
	o.part, o.wants, o.forbidden, o.idle = part{}, nil, nil, nil
	chosen := p.spread(o.reach.key.proxy, aboutOutbounds)
	service := o.shape.Tags.Service()
	p.forConnection(o.reach.sources, service, policy.AtOutbound, 0, chosen)
	p.forService(o.reach.sources, service, chosen, &o.part)
	split, err := p.split(o, chosen)
	if err != nil {
		// Requests still go where they went before, so those endpoints must stay up to date.
		o.part.failures = append(o.part.failures, plan.Failure{Cell: o.routeTable(), Err: err, Kept: o.split != nil})
		split = o.split
	}
	o.split = split
	destinations, services := selection.Destinations(split, service)
	p.link(o, services)
	o.unserved = slices.DeleteFunc(slices.Clone(services), func(s string) bool { _, d := p.destination(s); return d != nil })
	protocol := p.protocol(o, destinations)
	p.idleAt(o, chosen, policy.AtOutbound, protocol)
	var names renames
	for _, tags := range destinations {
		names = names.and(ClusterName(tags), p.buildDestination(o, &old, wants, chosen, tags, protocol))
	}
	p.forConnection(o.reach.sources, selection.Principal(services, service), policy.AtDestination, policy.AtOutbound, chosen)
	o.part.learned = p.learnAll(o.part.learned, chosen)
	p.contributed(chosen, &o.part)
	p.listen(o, &old, chosen, destinations, protocol, names)
}

// listen makes the listener of an outbound and, for HTTP, its route table.
func (p *Planner) listen(o *outbound, old *part, chosen picks, destinations []mesh.Tags, protocol string, names renames) {
	k := outboundKey{
		source: o.reach.shape.Source,
		mesh:   p.facts.mesh, address: o.shape.Address, port: o.shape.Port, tags: o.tags, protocol: protocol, transparent: o.reach.shape.Transparent, renamed: names,
		selections: p.only(chosen, func(pol *policy.Policy) bool { return pol.Outbound != nil }),
	}
	if !mesh.IsHTTP(protocol) {
		k.split, k.life = o.split, o.part.life()
	} else {
		rk := p.routesOf(o, chosen, destinations, protocol, names)
		k.routes = rk.name
		r, err := of(p.cells.outboundRoutes, p.round, rk, p.outboundRoutes)
		o.part.keep(&o.part.routes, old.routes, rk.name, r, err)
		if len(o.part.routes) == 0 {
			return // a listener without its routes would wait for them, and all others with it
		}
	}
	l, err := of(p.cells.outbounds, p.round, k, p.outbound)
	o.part.keep(&o.part.listeners, old.listeners, outboundName(k.address, k.port), l, err)
}

// routesOf returns the key of the routes of an outbound.
func (p *Planner) routesOf(o *outbound, chosen picks, destinations []mesh.Tags, protocol string, names renames) outboundRoutesKey {
	k := outboundRoutesKey{
		mesh: p.facts.mesh, name: o.routeTable(), service: o.shape.Tags.Service(), protocol: protocol, split: o.split, renamed: names,
		selections: p.only(chosen, func(pol *policy.Policy) bool { return pol.OutboundRoutes != nil || pol.Route != nil }),
		leads:      p.leads(destinations),
	}
	if p.has.targets {
		k.targets = p.forTargets(o, chosen, destinations)
	}
	return k
}

// buildDestination makes the cluster and the assignment of one destination, and returns their
// name. It makes nothing of a destination that the proxies may not call. A cluster that lists
// its endpoints itself is a different cluster than one with an assignment: requests switch from
// one to the other when the new one is warm.
func (p *Planner) buildDestination(o *outbound, old *part, wants []want, outer picks, tags mesh.Tags, protocol string) (name string) {
	canonical, service := tags.String(), tags.Service()
	chosen := p.atDestination(o, outer, tags)
	o.part.learned = p.learnAll(o.part.learned, chosen)
	p.contributed(chosen, &o.part)
	p.idleAt(o, chosen, policy.AtDestination, protocol)
	kind, d := p.destination(service)
	if p.isProxyless(kind) && !selects(d, tags) {
		return unmade(tags)
	}
	if !p.permitted(o.reach, tags, kind, d) {
		if !slices.Contains(o.forbidden, service) {
			o.forbidden = append(o.forbidden, service)
		}
		return refused(tags)
	}
	ak := assignmentKey{name: ClusterName(tags), tags: canonical, destination: d, clear: p.clearOf(kind, d), far: p.facts.security != plain}
	p.passThrough(o, &ak, tags)
	p.leaveBy(o, &ak, tags, kind)
	inline := p.kinds[kind].Inline(tags, d)
	if inline {
		ak.name += byName
	}
	transport := p.kinds[kind].Transport(Around{p}, tags, d)
	if k, marks := p.kinds[kind].(marking); marks {
		ak.name += k.Mark(transport)
	}
	if p.facts.localityAware {
		ak.aware, ak.local = true, o.reach.shape.Zone
	}
	ck := p.clusterOf(kind, &ak, protocol, transport, inline)
	ck.selections, ck.strangers = p.only(chosen, editsClusters), o.listener != nil
	cl, err := of(p.cells.clusters, p.round, ck, p.cluster)
	if err == nil {
		o.wants = append(o.wants, want{ck.name, cl.Version})
	} else if i := slices.IndexFunc(wants, func(w want) bool { return w.name == ck.name }); i >= 0 {
		o.wants = append(o.wants, wants[i]) // the cluster stays as it is, with its name
	}
	if name := o.renamed.of(ck.name); name != ck.name {
		ck.name, ak.name = name, name
		if inline {
			ck.inline = ak
		}
		cl, err = of(p.cells.clusters, p.round, ck, p.cluster)
	}
	kept := p.keepCluster(&o.part, old, made{ck.name, canonical, kind, ck.transport}, cl, err)
	if !kept && p.isProxyless(kind) {
		return unmade(tags)
	}
	if inline || !kept { // without the cluster nobody asks for its assignment
		return ck.name
	}
	a, err := of(p.cells.assignments, p.round, ak, assignment)
	if !o.part.keep(&o.part.endpoints, old.endpoints, ak.name, a, err) {
		o.part.endpoints = append(o.part.endpoints, resource.Empty(ak.name))
	}
	return ck.name
}

// split asks the chosen policy where requests go. If no policy is chosen, nothing is routed.
func (p *Planner) split(o *outbound, chosen picks) (*draft.Split, error) {
	for i, pol := range p.policies {
		if pol.Split == nil || chosen[i] == nil {
			continue
		}
		return of(p.cells.splits, p.round, splitKey{chosen[i], o.tags}, func(k splitKey) (*draft.Split, error) {
			return pol.Split(k.selection, tagsOf(k.tags))
		})
	}
	return nil, nil //nolint:nilnil // no split is a meaning: nothing is routed
}

// protocol returns the protocol of the endpoints of all destinations. If there are none, it is
// the protocol of all endpoints of these services, so that a subset without endpoints does not
// change the listener from HTTP to TCP. If there are none either, the outbound decides.
func (p *Planner) protocol(o *outbound, destinations []mesh.Tags) string {
	var spoken, served []string
	note := func(into []string, protocol string) []string {
		if slices.Contains(into, protocol) {
			return into
		}
		return append(into, protocol)
	}
	for _, tags := range destinations {
		_, d := p.destination(tags.Service())
		all := endpointsOf(d)
		for i := range all {
			e := &all[i]
			if served = note(served, e.Tags.Protocol()); mesh.Matches(tags, e.Tags) {
				spoken = note(spoken, e.Tags.Protocol())
			}
		}
	}
	switch {
	case len(spoken) > 0:
		return protocolOf(spoken)
	case len(served) > 0:
		return protocolOf(served)
	}
	return protocolOf([]string{o.shape.Tags.Protocol()})
}

// link notes on which services an outbound depends.
func (p *Planner) link(o *outbound, services []string) {
	if slices.Equal(o.services, services) {
		return
	}
	p.unlink(o)
	o.services = services
	for _, s := range append([]string{o.shape.Tags.Service()}, services...) {
		if p.byService[s] == nil {
			p.byService[s] = map[*outbound]struct{}{}
		}
		p.byService[s][o] = struct{}{}
	}
}

func (p *Planner) unlink(o *outbound) {
	for _, s := range append([]string{o.shape.Tags.Service()}, o.services...) {
		delete(p.byService[s], o)
		if len(p.byService[s]) == 0 {
			delete(p.byService, s)
		}
	}
	o.services = nil
}
