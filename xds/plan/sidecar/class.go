package sidecar

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/logsink"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/selection"
)

// class is the set of proxies of one shape.
type class struct {
	key     string
	shape   shape
	sources []mesh.Tags
	// reach has the outbounds, which other classes may share.
	reach    *reach
	inbounds []*inbound
	// proxy holds the selections for its proxies as a whole.
	proxy *policy.Choices
	// was maps shapes to the inbounds as they were last built.
	was     map[*inboundShape]*inbound
	members map[*proxy]struct{}
	// staleIn says that the next Plan must build the inbounds.
	staleIn bool
	// learned holds what policies on whole proxies found, and passed what those on connections
	// that leave the mesh did.
	learned, passed []learned

	// The members share these: the tables of the reach, with the class's own resources.
	clusters, listeners, routes mixed
	failures                    []plan.Failure
	// contributed is what policies contribute. sockets are the addresses of its listeners.
	contributed part
	sockets     map[string]netip.AddrPort
	// generation is the generation of the identities under a trust.
	generation string
	trust      *view.Entry[mesh.Trust]
}

// part is what one piece of a class, or a proxy itself, contributes.
type part struct {
	clusters, endpoints, listeners, routes []*resource.Resource
	// secrets and contributions come from policies.
	secrets       []*resource.Resource
	contributions []*contribution
	learned       []learned
	failures      []plan.Failure
	// made says how the clusters of destinations were made.
	made []made
	// across are the names of the listeners for proxies of all meshes.
	across []string
}

// classify puts a proxy into the class of its shape. It makes the class for the first proxy.
func (p *Planner) classify(x *proxy, d *view.Dataplane) {
	s := shapeOf(p.state, d)
	s.Bare = p.bare[x.name]
	key := s.key()
	c := p.classes[key]
	if c == nil {
		c = &class{
			key: key, shape: s, sources: sourcesOf(d), members: map[*proxy]struct{}{}, was: map[*inboundShape]*inbound{}, staleIn: true,
		}
		p.classes[key] = c
		p.place(c)
	}
	if x.class != c {
		p.unclassify(x)
		x.class = c
		c.members[x] = struct{}{}
	}
	x.listening = listening(d)
	x.admin, x.owned = 0, nil
	if n := d.Spec.Networking; n != nil {
		x.address, x.owned = n.Address, owned(n)
		if n.Admin != nil {
			x.admin = uint16(min(n.Admin.Port, math.MaxUint16))
		}
	}
	x.probes.take(d, &s, x.listening)
	p.loose[x] = struct{}{}
}

func sourcesOf(d *view.Dataplane) []mesh.Tags {
	if d.Spec.Networking == nil {
		return nil
	}
	return selection.Sources(d.Spec.Networking)
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
	p.displace(c)
	delete(p.classes, c.key)
	delete(p.dirty, c)
}

// build makes the stale inbounds of a class and its tables. The reach must be built before.
func (p *Planner) build(c *class) {
	if c.staleIn {
		c.inbounds = nil
		for i := range c.shape.Inbounds {
			in := &inbound{shape: &c.shape.Inbounds[i]}
			p.buildInbound(c, in)
			c.inbounds = append(c.inbounds, in)
			c.was[in.shape] = in
		}
		c.staleIn = false
	}
	p.gather(c)
	for x := range c.members {
		p.loose[x] = struct{}{}
	}
}

// gather makes the shared tables. If several pieces contribute a resource of one name, the
// first wins: redirected listeners, then outbounds, then inbounds.
func (p *Planner) gather(c *class) {
	r, first := c.reach, p.redirected(c)
	var rest part
	for _, in := range c.inbounds {
		rest.add(&in.part)
	}
	rest.routes = append(rest.routes, p.probing(c, &rest)...)
	p.contribute(c, &first, &rest)
	rest.clusters = append(rest.clusters, c.contributed.clusters...)
	c.clusters.with(&p.compare, r.clusters, beside(r.clusters, first.clusters, rest.clusters), nil)
	c.listeners.with(&p.compare, r.listeners, beside(r.listeners, first.listeners, c.contributed.listeners), nil)
	c.routes.with(&p.compare, r.routes, beside(r.routes, nil, rest.routes), nil)
	c.failures = once(slices.Concat(first.failures, r.failures, rest.failures, c.contributed.failures, p.problemsOf(c), c.problemsOfMetrics()))
}

// once leaves failures out that were there before: the same policy may be chosen for many places.
// What is kept at one of them is in use.
func once(all []plan.Failure) (out []plan.Failure) {
	seen := map[[2]string]int{}
	for _, f := range all {
		key := [2]string{f.Cell, f.Err.Error()}
		if i, ok := seen[key]; ok {
			out[i].Kept = out[i].Kept || f.Kept
			continue
		}
		seen[key] = len(out)
		out = append(out, f)
	}
	return out
}

// beside returns what to put over a table: first, and the resources of rest whose names are in
// neither.
func beside(table *resource.Table, first, rest []*resource.Resource) []*resource.Resource {
	out := slices.Clone(first)
	for _, r := range rest {
		if table.Get(r.Name) == nil && !slices.ContainsFunc(out, func(o *resource.Resource) bool { return o.Name == r.Name }) {
			out = append(out, r)
		}
	}
	return out
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
	a.contributions = append(a.contributions, b.contributions...)
}

// assemble makes the set of a proxy from what its class shares and its own resources.
func (p *Planner) assemble(x *proxy) *resource.Set {
	p.buildOwn(x)
	c := x.class
	tables := map[resource.TypeURL]*resource.Table{
		resource.Cluster:  x.clusters.with(&p.compare, c.clusters.table, x.own.clusters, nil),
		resource.Listener: x.listeners.with(&p.compare, c.listeners.table, x.own.listeners, x.hidden),
		resource.Endpoint: c.reach.endpoints, resource.Route: c.routes.table,
	}
	x.failures = x.own.failures
	patched := c.proxy != nil && p.has.patch
	if patched {
		x.failures = slices.Concat(x.failures, p.finish(x, tables))
	}
	secrets := p.secrets(x, tables)
	if patched {
		secrets = x.unneeded(secrets, c.reach.confided, tables[resource.Cluster])
	}
	return resource.Assemble(tables, secrets)
}

// secrets adds the secrets of a proxy to its tables, which are finished otherwise, and returns those
// for which it may ask, with their generations.
func (p *Planner) secrets(x *proxy, tables map[resource.TypeURL]*resource.Table) (secrets map[string]string) {
	c, put := x.class, x.class.contributed.secrets
	if p.facts.security != plain {
		tables[resource.Secret] = p.ca
		secrets = map[string]string{
			mesh.SecretIdentity(p.facts.mesh): c.identity(p.state.Trust()),
			mesh.SecretCA(p.facts.mesh):       "",
		}
		put = slices.Concat(p.judgedBy(c.reach, tables), put)
	}
	if len(put) > 0 || x.secrets.table != nil {
		tables[resource.Secret] = x.secrets.with(&p.compare, tables[resource.Secret], put, nil)
		secrets = allowed(secrets, put)
	}
	for _, name := range c.reach.confided {
		if secrets == nil {
			secrets = map[string]string{}
		}
		secrets[name] = "" // another content has another name
	}
	if len(c.reach.presented) > 0 {
		all := maps.Clone(c.reach.presented)
		maps.Copy(all, secrets)
		secrets = all
	}
	return secrets
}

// allowed adds secrets that are in the set to those that a proxy may ask for.
func allowed(names map[string]string, more []*resource.Resource) map[string]string {
	out := maps.Clone(names)
	for _, r := range more {
		if out == nil {
			out = map[string]string{}
		}
		out[r.Name] = ""
	}
	return out
}

// mixed remembers a table that others share, what is put over it and what is dropped from it.
// If nothing changes, the proxy keeps its table.
type mixed struct {
	base, table *resource.Table
	put         []*resource.Resource
	drop        []string
}

func (m *mixed) with(compare *resource.Comparer, base *resource.Table, put []*resource.Resource, drop []string) *resource.Table {
	if m.base == base && slices.Equal(m.put, put) && slices.Equal(m.drop, drop) {
		return m.table
	}
	next := base.Layer(put, drop)
	if m.table != nil && compare.Same(m.table, next) {
		next = m.table
	}
	*m = mixed{base, next, put, drop}
	return next
}

// identity returns the generation of the identities of a class.
func (c *class) identity(t *view.Entry[mesh.Trust]) string {
	if c.generation == "" || c.trust != t {
		issuer := ""
		if t != nil {
			issuer = t.Spec.Issuer
		}
		c.generation, c.trust = Generation(issuer, c.sources), t
	}
	return c.generation
}

// buildOwn makes the listeners of the inbounds, which contain the addresses of the proxy. For
// transparent proxies it also makes the clusters of the workload.
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
		case in.shape.Scraping != nil && x.probedAt().has(at):
			err = fmt.Errorf("probes are answered at %s", at)
		case in.shape.Scraping != nil:
			err = p.givesWay(x, at)
		case at.Addr().IsUnspecified() && in.shape.servedAt(at.Port()):
			err = fmt.Errorf("%s is the workload's own port: give the inbound an address, or the workload another port", at)
		}
		if err != nil && in.shape.Scraping != nil {
			x.own.failures = append(x.own.failures, unscraped(err))
			continue
		}
		if err != nil {
			x.own.failures = append(x.own.failures, plan.Failure{Cell: inboundName(x.listening[i], in.shape.Port), Err: err})
			continue
		}
		taken[at] = true
		k := listenerKey{chains: in.chains, address: x.listening[i], port: in.shape.Port, transparent: c.shape.Transparent, scraped: in.shape.Scraping != nil}
		l, err := of(p.cells.listeners, p.round, k, inboundListener)
		// An earlier listener may have had other chains, so it is not kept.
		x.own.keep(&x.own.listeners, nil, k.name(), l, err)
		if in.shape.WorkloadAddress != "" || in.shape.Scraping != nil {
			continue
		}
		lk := localKey{name: in.shape.Cluster, address: x.address, port: in.shape.WorkloadPort, protocol: in.shape.Tags.Protocol(), transparent: true}
		cl, err := of(p.cells.locals, p.round, lk, local)
		x.own.keep(&x.own.clusters, old.clusters, lk.name, cl, err)
	}
	x.hide(taken)
	x.hideOwn()
	p.probe(x, taken)
	x.tellSource()
	x.tellProbes()
}

// tellSource tells the agent of a proxy with access logs the address of the proxy. It is in no
// format, so that proxies of one shape share their listeners.
func (x *proxy) tellSource() {
	if !slices.ContainsFunc(x.class.contributed.clusters, func(r *resource.Resource) bool { return logsink.Is(r.Name) }) {
		return
	}
	c := logsink.Source(x.address)
	r, err := plan.Freeze(resource.Cluster, c.GetName(), c)
	x.own.keep(&x.own.clusters, nil, c.GetName(), r, err)
}

// hide removes outbounds, and listeners of policies, that would listen where an inbound does.
// The inbound stays, because its callers must not be led elsewhere.
func (x *proxy) hide(taken sockets) {
	for _, port := range taken.ports() {
		for _, o := range x.class.reach.ports[port] {
			if taken.has(o.at) {
				name := o.listenerName()
				x.hidden = append(x.hidden, name)
				x.own.failures = append(x.own.failures, plan.Failure{Cell: name, Err: fmt.Errorf("an inbound listens on %s", o.at)})
			}
		}
	}
	for _, l := range x.class.contributed.listeners {
		if at := x.class.sockets[l.Name]; taken.has(at) {
			x.hidden = append(x.hidden, l.Name)
			x.own.failures = append(x.own.failures, plan.Failure{Cell: l.Name, Err: fmt.Errorf("an inbound listens on %s", at)})
		}
	}
}

// usable drops the outbounds that Envoy would refuse, and returns the reasons.
func usable(shapes []selection.Outbound) (out []selection.Outbound, refused []plan.Failure) {
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

// keep adds a resource, or its earlier version if it could not be made. It reports whether
// there is one.
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
