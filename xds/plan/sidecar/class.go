package sidecar

import (
	"fmt"
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// class are the proxies of one shape.
type class struct {
	key     string
	shape   shape
	sources []mesh.Tags
	// source is the header with the tags.
	source    string
	outbounds []*outbound
	inbounds  []*inbound
	// was finds the inbounds as they were built last.
	was     map[*inboundShape]*inbound
	members map[*proxy]struct{}

	// stale pieces are to be built at the next Plan; relist says that the list of
	// outbounds is to be made anew.
	staleOut map[*outbound]struct{}
	staleIn  bool
	relist   bool
	// refused are the outbounds that no proxy could have.
	refused []plan.Failure

	// tables are what the members share.
	clusters, endpoints, listeners, routes *resource.Table
	failures                               []plan.Failure
	// distinct says that no two pieces contribute one name.
	distinct bool
	// generation is that of the identities under a trust.
	generation string
	trust      *view.Entry[mesh.Trust]
}

// part is what one piece of a class, or a proxy by itself, contributes.
type part struct {
	clusters, endpoints, listeners, routes []*resource.Resource
	failures                               []plan.Failure
	// secured are the names of the clusters that speak mutual TLS.
	secured map[string]bool
}

// secure notes that a cluster speaks mutual TLS.
func (a *part) secure(cluster string) {
	if a.secured == nil {
		a.secured = map[string]bool{}
	}
	a.secured[cluster] = true
}

// classify puts a proxy into the class of its shape, making the class if it is
// the first.
func (p *Planner) classify(x *proxy, d *view.Dataplane) {
	s := shapeOf(d)
	s.Bare = p.bare[x.name]
	key := s.key()
	c := p.classes[key]
	if c == nil {
		c = &class{
			key: key, shape: s, sources: s.sources(), members: map[*proxy]struct{}{},
			was: map[*inboundShape]*inbound{}, staleOut: map[*outbound]struct{}{}, relist: true, staleIn: true,
		}
		c.source = sourceHeader(c.sources)
		p.classes[key] = c
		p.dirty[c] = struct{}{}
	}
	if x.class != c {
		p.unclassify(x)
		x.class = c
		c.members[x] = struct{}{}
	}
	x.listening = listening(d)
	if n := d.Spec.Networking; n != nil {
		x.address = n.Address
	}
	p.loose[x] = struct{}{}
}

func (p *Planner) unclassify(x *proxy) {
	c := x.class
	if c == nil {
		return
	}
	x.class = nil
	delete(c.members, x)
	if len(c.members) > 0 {
		return
	}
	for _, o := range c.outbounds {
		p.unlink(o)
	}
	delete(p.classes, c.key)
	delete(p.dirty, c)
}

// build makes the stale pieces of a class and its tables.
func (p *Planner) build(c *class) {
	if c.relist {
		p.list(c)
	}
	before := make(map[*outbound]part, len(c.staleOut))
	resettled := c.relist
	for o := range c.staleOut {
		wants := o.wants
		before[o] = o.part
		p.buildOutbound(o)
		resettled = resettled || !slices.Equal(wants, o.wants)
	}
	if resettled {
		p.rename(c, before)
	}
	patched := !c.staleIn && !c.relist && c.patch(before)
	if c.staleIn {
		c.inbounds = nil
		for i := range c.shape.Inbounds {
			in := &inbound{shape: &c.shape.Inbounds[i]}
			p.buildInbound(c, in)
			c.inbounds = append(c.inbounds, in)
			c.was[in.shape] = in
		}
	}
	moved := c.staleIn || c.relist || len(before) > 0
	clear(c.staleOut)
	c.staleIn, c.relist = false, false
	if moved {
		if !patched {
			p.gather(c)
		}
		for x := range c.members {
			p.loose[x] = struct{}{}
		}
	}
}

// rename builds the outbounds again of which clusters get other names.
func (p *Planner) rename(c *class, before map[*outbound]part) {
	for _, o := range c.tellApart() {
		if _, ok := before[o]; !ok {
			before[o] = o.part
		}
		p.buildOutbound(o)
	}
}

// list makes the outbounds of a class, keeping those that stay.
func (p *Planner) list(c *class) {
	before := map[string]*outbound{}
	for _, o := range c.outbounds {
		before[o.id()] = o
	}
	c.outbounds = c.outbounds[:0]
	shapes, refused := usable(p.outboundsOf(c))
	c.refused = refused
	shared := map[string]int{}
	for i := range shapes {
		shared[shapes[i].Tags.Service()]++
	}
	for i := range shapes {
		at, _ := addressOf(shapes[i].Address, shapes[i].Port) // usable
		o := &outbound{class: c, shape: shapes[i], at: at, tags: shapes[i].Tags.String(), shared: shared[shapes[i].Tags.Service()] > 1}
		if old := before[o.id()]; old != nil {
			delete(before, o.id())
			o = old
		} else {
			c.staleOut[o] = struct{}{}
		}
		c.outbounds = append(c.outbounds, o)
	}
	for _, o := range before {
		p.unlink(o)
		delete(c.staleOut, o)
	}
}

// gather makes the shared tables. Of two pieces that contribute one name the
// first wins: a cluster that two outbounds reach is one cluster. A table of
// which no bytes differ stays the same pointer.
func (p *Planner) gather(c *class) {
	all := p.redirected(c)
	all.failures = append(all.failures, c.refused...)
	for _, o := range c.outbounds {
		all.add(&o.part)
	}
	for _, in := range c.inbounds {
		all.add(&in.part)
	}
	c.clusters = c.clusters.Become(all.clusters)
	c.endpoints = c.endpoints.Become(all.endpoints)
	c.listeners = c.listeners.Become(all.listeners)
	c.routes = c.routes.Become(all.routes)
	c.failures = all.failures
	c.distinct = c.clusters.Len() == len(all.clusters) && c.endpoints.Len() == len(all.endpoints) &&
		c.listeners.Len() == len(all.listeners) && c.routes.Len() == len(all.routes)
}

// patch puts what outbounds contribute into the tables without gathering all
// that did not change. It can only if the names are those of before and no two
// pieces contribute one name.
func (c *class) patch(before map[*outbound]part) bool {
	if !c.distinct || len(c.failures) > 0 {
		return false
	}
	var all part
	for o, old := range before {
		if len(o.part.failures) > 0 || !o.part.sameNames(&old) {
			return false
		}
		all.add(&o.part)
	}
	c.clusters = c.clusters.With(all.clusters, nil)
	c.endpoints = c.endpoints.With(all.endpoints, nil)
	c.listeners = c.listeners.With(all.listeners, nil)
	c.routes = c.routes.With(all.routes, nil)
	return true
}

func (a *part) sameNames(b *part) bool {
	same := func(x, y *resource.Resource) bool { return x.Name == y.Name }
	return slices.EqualFunc(a.clusters, b.clusters, same) && slices.EqualFunc(a.endpoints, b.endpoints, same) &&
		slices.EqualFunc(a.listeners, b.listeners, same) && slices.EqualFunc(a.routes, b.routes, same)
}

func (a *part) add(b *part) {
	a.clusters = append(a.clusters, b.clusters...)
	a.endpoints = append(a.endpoints, b.endpoints...)
	a.listeners = append(a.listeners, b.listeners...)
	a.routes = append(a.routes, b.routes...)
	a.failures = append(a.failures, b.failures...)
}

// assemble makes the set of a proxy: what its class shares, and its own.
func (p *Planner) assemble(x *proxy) *resource.Set {
	p.buildOwn(x)
	c := x.class
	tables := map[resource.TypeURL]*resource.Table{
		resource.Cluster:  x.clusters.with(c.clusters, x.own.clusters, nil),
		resource.Listener: x.listeners.with(c.listeners, x.own.listeners, x.hidden),
		resource.Endpoint: c.endpoints, resource.Route: c.routes,
	}
	var secrets map[string]string
	if p.facts.security != plain {
		tables[resource.Secret] = p.ca
		secrets = map[string]string{
			mesh.SecretIdentity(p.facts.mesh): c.identity(p.state.Trust()),
			mesh.SecretCA(p.facts.mesh):       "",
		}
	}
	x.failures = x.own.failures
	return resource.Assemble(tables, secrets)
}

// mixed remembers a table of the class with what is a proxy's own, so that a
// proxy of which nothing differs keeps its table.
type mixed struct {
	base, table *resource.Table
	put         []*resource.Resource
	drop        []string
}

func (m *mixed) with(base *resource.Table, put []*resource.Resource, drop []string) *resource.Table {
	if m.base == base && slices.Equal(m.put, put) && slices.Equal(m.drop, drop) {
		return m.table
	}
	next := base.With(put, drop)
	if m.table != nil && m.table.Same(next) {
		next = m.table
	}
	*m = mixed{base, next, put, drop}
	return next
}

// identity is the generation of the identities of a class.
func (c *class) identity(t *view.Entry[mesh.Trust]) string {
	if c.generation == "" || c.trust != t {
		c.generation, c.trust = generation(t, c.sources), t
	}
	return c.generation
}

// buildOwn makes the listeners of the inbounds, which bear the addresses of the
// proxy, and for transparent proxies the clusters of the workload.
func (p *Planner) buildOwn(x *proxy) {
	c, old := x.class, x.own
	x.own, x.hidden = part{}, nil
	taken := sockets{}
	for i, in := range c.inbounds {
		if in.chains == nil || i >= len(x.listening) {
			continue
		}
		at, err := addressOf(x.listening[i], in.shape.Port)
		switch {
		case err != nil:
		case taken.has(at):
			err = fmt.Errorf("another inbound listens on %s", at)
		case at.Addr().IsUnspecified() && in.shape.servedAt(at.Port()):
			err = fmt.Errorf("%s is the workload's own port: give the inbound an address, or the workload another port", at)
		}
		if err != nil {
			x.own.failures = append(x.own.failures, plan.Failure{Cell: inboundName(x.listening[i], in.shape.Port), Err: err})
			continue
		}
		taken[at] = true
		k := listenerKey{chains: in.chains, address: x.listening[i], port: in.shape.Port, transparent: c.shape.Transparent}
		l, err := of(p.cells.listeners, p.round, k, inboundListener)
		// The one of before may have had other chains.
		x.own.keep(&x.own.listeners, nil, inboundName(k.address, k.port), l, err)
		if in.shape.WorkloadAddress != "" {
			continue
		}
		lk := localKey{name: in.shape.Cluster, address: x.address, port: in.shape.WorkloadPort, protocol: in.shape.Tags.Protocol(), transparent: true}
		cl, err := of(p.cells.locals, p.round, lk, local)
		x.own.keep(&x.own.clusters, old.clusters, lk.name, cl, err)
	}
	x.hide(taken)
}

// hide takes away the outbounds that would listen where an inbound does. It is
// the inbound that stays: who calls it must not be led elsewhere.
func (x *proxy) hide(taken sockets) {
	for _, o := range x.class.outbounds {
		if taken.has(o.at) {
			name := outboundName(o.shape.Address, o.shape.Port)
			x.hidden = append(x.hidden, name)
			x.own.failures = append(x.own.failures, plan.Failure{Cell: name, Err: fmt.Errorf("an inbound listens on %s", o.at)})
		}
	}
}

// usable drops the outbounds that Envoy would refuse, and says why.
func usable(shapes []outboundShape) (out []outboundShape, refused []plan.Failure) {
	taken := sockets{}
	for _, s := range shapes {
		at, err := addressOf(s.Address, s.Port)
		if err == nil && taken.has(at) {
			err = fmt.Errorf("another outbound listens on %s", at)
		}
		if err != nil {
			refused = append(refused, plan.Failure{Cell: outboundName(s.Address, s.Port), Err: err})
			continue
		}
		taken[at] = true
		out = append(out, s)
	}
	return out, refused
}

// keep adds a resource, or the one of before if it could not be made, and reports
// whether there is any.
func (a *part) keep(into *[]*resource.Resource, before []*resource.Resource, name string, r *resource.Resource, err error) bool {
	if err != nil {
		i := slices.IndexFunc(before, func(b *resource.Resource) bool { return b.Name == name })
		a.failures = append(a.failures, plan.Failure{Cell: name, Err: fmt.Errorf("build %s: %w", name, err), Kept: i >= 0})
		if i < 0 {
			return false
		}
		r = before[i]
	}
	*into = append(*into, r)
	return true
}
