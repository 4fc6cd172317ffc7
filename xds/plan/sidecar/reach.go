package sidecar

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/selection"
)

// reach holds the outbounds of classes that reach the same services in the same way. They are
// planned once for all of these classes. Classes share a reach if they do not differ in
// anything that outbounds are made of. The key of a reach consists of just that.
type reach struct {
	key   reachKey
	shape reachShape
	// sources are the tags of one of the classes. No policy on connections can distinguish
	// them from the tags of the others.
	sources   []mesh.Tags
	classes   map[*class]struct{}
	outbounds []*outbound
	// gateway is what a builtin gateway has to do; nil for other proxies. front holds its listeners
	// and route tables, and presented the certificates of its listeners with their generations.
	gateway   *selection.Gateway
	front     part
	presented map[string]string
	// awaits is what the listeners wait for, and missing says that none exist to use until then.
	awaits  string
	missing bool
	// known is the table of host names of proxies that reach everything.
	known part
	// ports maps a port to the outbounds that listen on it.
	ports map[uint16][]*outbound
	// direct is what the direct accesses among the outbounds amount to.
	direct direct

	// stale holds the outbounds that the next Plan must build. relist says that it must also
	// make the list of outbounds again.
	stale  map[*outbound]struct{}
	relist bool
	// refused are the outbounds that no proxy can have.
	refused []plan.Failure

	clusters, endpoints, listeners, routes *resource.Table
	failures                               []plan.Failure
	// confided are the secrets for which its clusters ask, and judges what judges by roots of others.
	confided []string
	judges   []judge
	// contributions come from the policies of the outbounds.
	contributions []*contribution
	// distinct says that no two outbounds contribute a resource of the same name.
	distinct bool
}

// reachKey is everything that an outbound is made of.
type reachKey struct {
	shape string
	// proxy holds what policies that edit outbounds chose for the proxy as a whole.
	proxy *policy.Choices
}

// reachShape holds the properties of a class that decide which services it reaches, and how.
type reachShape struct {
	Outbounds   []selection.Outbound
	Transparent bool
	Everything  bool
	Reachable   []string
	// Direct says to which services the class has direct access.
	Direct *directShape `json:",omitempty"`
	// Gateway holds the tags of a builtin gateway, and At is where it listens.
	Gateway mesh.Tags `json:",omitempty"`
	At      string    `json:",omitempty"`
	// Bare is only set for builtin gateways, whose listeners a reach has.
	Bare bool `json:",omitempty"`
	// Zone is only set while the mesh prefers near endpoints.
	Zone string
	// Source is only set while a policy looks at it.
	Source source
	// Selectors are the sources of policies on connections that match the class, in
	// canonical form. They decide which policies are chosen, because the rank of a policy is
	// that of its best matching source, and a source has the same rank for all classes.
	Selectors []string
}

// source is the service of some proxies, and their zone.
type source struct{ Service, Zone string }

// sourceOf returns what proxies with some tag sets are known as. The first set counts, as in
// their identity.
func sourceOf(sets []mesh.Tags) source {
	if len(sets) == 0 {
		return source{}
	}
	return source{sets[0].Service(), zone(sets)}
}

// selector is one source of a policy on connections.
type selector struct {
	canonical string
	tags      mesh.Tags
	// sourced is set for sources of policies that look at whose outbounds they edit.
	sourced bool
}

// survey lists the sources by which policies on connections distinguish proxies, and those by
// which permissions do whose services have no proxies. It reports whether the list differs from
// the one before.
func (p *Planner) survey() bool {
	var found []selector
	for _, pol := range p.policies {
		if !aboutConnections(pol) || pol.Proxyless && !p.reachesOutside() {
			continue
		}
		for x := range p.state.Policies(pol.Kind) {
			for _, tags := range x.Clients() {
				found = append(found, selector{canonical: tags.String(), tags: tags})
				if pol.Sourced {
					found = append(found, selector{canonical: "sourced " + tags.String(), tags: tags, sourced: true})
				}
			}
			if pol.Sourced && len(x.Clients()) == 0 {
				found = append(found, selector{canonical: "sourced", sourced: true})
			}
		}
	}
	for tags := range p.permittedSources() {
		found = append(found, selector{canonical: tags.String(), tags: tags})
	}
	slices.SortFunc(found, func(a, b selector) int { return cmp.Compare(a.canonical, b.canonical) })
	same := func(a, b selector) bool { return a.canonical == b.canonical }
	found = slices.CompactFunc(found, same)
	if slices.EqualFunc(found, p.selectors, same) {
		return false
	}
	p.selectors = found
	return true
}

func aboutConnections(pol *policy.Policy) bool {
	return aboutOutbounds(pol.Attachment)
}

// reachOf returns what decides which services a class reaches, and how.
func (p *Planner) reachOf(c *class) reachShape {
	s := reachShape{
		Outbounds: c.shape.Outbounds, Transparent: c.shape.Transparent, Everything: c.shape.Everything, Reachable: c.shape.Reachable,
		Direct: directOf(&c.shape),
	}
	if p.facts.localityAware {
		s.Zone = zone(c.sources)
	}
	if c.shape.Builtin { // the tags distinguish it in every respect
		s.Gateway, s.At, s.Bare, s.Source = c.shape.Gateway, c.shape.At, c.shape.Bare, sourceOf(c.sources)
		s.Outbounds, s.Transparent, s.Everything, s.Reachable, s.Direct = nil, false, false, nil, nil
		return s
	}
	for _, selector := range p.selectors {
		if slices.ContainsFunc(c.sources, func(tags mesh.Tags) bool { return mesh.Matches(selector.tags, tags) }) {
			s.Selectors = append(s.Selectors, selector.canonical)
			if selector.sourced {
				s.Source = sourceOf(c.sources)
			}
		}
	}
	return s
}

// place puts a class into its reach. It makes the reach for the first class. A class that comes
// from another reach brings the outbounds from there, so that an outbound that cannot be built
// keeps its last version.
func (p *Planner) place(c *class) {
	outbounds := p.forProxy(c)
	s := p.reachOf(c)
	if p.lookAtSource(outbounds) {
		s.Source = sourceOf(c.sources)
	}
	b, err := json.Marshal(s)
	if err != nil { // strings and numbers always encode
		panic(err)
	}
	key := reachKey{string(b), outbounds}
	if c.reach != nil && c.reach.key == key {
		return
	}
	r := p.reaches[key]
	if r == nil {
		r = &reach{key: key, shape: s, classes: map[*class]struct{}{}, stale: map[*outbound]struct{}{}, relist: true}
		r.inherit(c.reach)
		p.reaches[key] = r
		p.moved[r] = struct{}{}
	}
	p.displace(c)
	c.reach, r.sources = r, c.sources
	r.classes[c] = struct{}{}
	p.mark(c)
}

// lookAtSource reports whether a policy that is chosen for whole proxies looks at whose their
// outbounds are.
func (p *Planner) lookAtSource(chosen *policy.Choices) bool {
	for i, pol := range p.policies {
		if pol.Sourced && chosen.At(i) != nil {
			return true
		}
	}
	return false
}

// displace takes a class out of its reach. The reach is deleted with its last class.
func (p *Planner) displace(c *class) {
	r := c.reach
	if r == nil {
		return
	}
	c.reach = nil
	delete(r.classes, c)
	for other := range r.classes {
		// The sources of a class that has left may match what those of the others do not.
		r.sources = other.sources
		return
	}
	for _, o := range r.outbounds {
		p.unlink(o)
	}
	delete(p.reaches, r.key)
	delete(p.moved, r)
}

// inherit takes the outbounds of another reach over. All of them have to be built.
func (r *reach) inherit(old *reach) {
	if old == nil {
		return
	}
	for _, o := range old.outbounds {
		own := *o
		own.reach, own.services = r, nil
		r.outbounds = append(r.outbounds, &own)
		r.stale[&own] = struct{}{}
	}
	r.contributions, r.confided, r.judges, r.front, r.known, r.presented = old.contributions, old.confided, old.judges, old.front, old.known, old.presented
	r.awaits, r.missing = old.awaits, old.missing
	r.clusters, r.endpoints, r.listeners, r.routes = old.clusters, old.endpoints, old.listeners, old.routes
}

// touch makes the next Plan build an outbound again.
func (p *Planner) touch(o *outbound) {
	o.reach.stale[o] = struct{}{}
	p.moved[o.reach] = struct{}{}
}

// touchAll makes the next Plan build everything of a reach again.
func (p *Planner) touchAll(r *reach) {
	for _, o := range r.outbounds {
		r.stale[o] = struct{}{}
	}
	p.moved[r] = struct{}{}
}

// follow builds the stale outbounds of a reach, and its tables. If that changes anything for
// its classes, it marks them to be built next.
func (p *Planner) follow(r *reach) {
	was, relisted := *r, r.relist
	if r.relist {
		p.list(r)
	}
	before := make(map[*outbound]part, len(r.stale))
	resettled := r.relist
	for o := range r.stale {
		wants := o.wants
		before[o] = o.part
		p.buildOutbound(o)
		resettled = resettled || !slices.Equal(wants, o.wants)
	}
	if resettled {
		p.rename(r, before)
	}
	p.stand(r)
	r.settleDirect()
	if r.relist || r.shape.Gateway != nil || !r.patch(before) {
		r.gather()
	}
	clear(r.stale)
	r.relist = false
	if r.clusters != was.clusters {
		p.confide(r)
	}
	if r.clusters != was.clusters || r.listeners != was.listeners {
		p.judge(r)
	}
	if p.has.contribute {
		r.collectContributions()
	}
	if relisted || len(was.failures)+len(r.failures) > 0 || !r.sameTables(&was) || !maps.Equal(r.presented, was.presented) || !slices.Equal(r.contributions, was.contributions) {
		for c := range r.classes {
			p.mark(c)
		}
	}
}

// confide lists the secrets for which the clusters of a reach ask. Their names are in those
// clusters.
func (p *Planner) confide(r *reach) {
	r.confided = nil
	for i, k := range p.kinds {
		asks, is := k.(confiding)
		if !is || !p.locates(k) {
			continue
		}
		for _, o := range r.outbounds {
			for j := range o.part.made {
				m := &o.part.made[j]
				if m.kind == i && slices.ContainsFunc(o.part.clusters, func(c *resource.Resource) bool { return c.Name == m.cluster }) {
					r.confided = append(r.confided, asks.Confides(m.transport)...)
				}
			}
		}
	}
}

// locates reports whether there is any destination of a kind.
func (p *Planner) locates(k DestinationKind) bool {
	for range p.state.LocatedBy(k.Kind()) {
		return true
	}
	return false
}

func (r *reach) sameTables(o *reach) bool {
	return r.clusters == o.clusters && r.endpoints == o.endpoints && r.listeners == o.listeners && r.routes == o.routes
}

// rename builds those outbounds again whose clusters get other names.
func (p *Planner) rename(r *reach, before map[*outbound]part) {
	for _, o := range r.tellApart() {
		if _, ok := before[o]; !ok {
			before[o] = o.part
		}
		p.buildOutbound(o)
	}
}

// list makes the outbounds of a reach. It keeps those that it still has.
func (p *Planner) list(r *reach) {
	if r.shape.Gateway != nil {
		p.listBuiltin(r)
		return
	}
	before := map[string]*outbound{}
	for _, o := range r.outbounds {
		before[o.id()] = o
	}
	r.outbounds, r.ports = r.outbounds[:0], map[uint16][]*outbound{}
	shapes, refused := usable(p.outboundsOf(r))
	r.refused = refused
	shared := map[string]int{}
	for i := range shapes {
		shared[shapes[i].Tags.Service()]++
	}
	for i := range shapes {
		at, _ := addressOf(shapes[i].Address, shapes[i].Port) // usable
		o := &outbound{reach: r, shape: shapes[i], at: at, tags: shapes[i].Tags.String(), shared: shared[shapes[i].Tags.Service()] > 1}
		if old := before[o.id()]; old != nil {
			delete(before, o.id())
			o = old
		} else {
			r.stale[o] = struct{}{}
		}
		r.outbounds = append(r.outbounds, o)
		r.ports[at.Port()] = append(r.ports[at.Port()], o)
	}
	p.listDirect(r, before)
	for _, o := range before {
		p.unlink(o)
		delete(r.stale, o)
	}
}

// gather makes the tables. If two outbounds contribute a resource of one name, the first wins,
// because a cluster that both reach is one cluster. If no byte of a table differs, its pointer
// stays the same.
func (r *reach) gather() {
	all := part{failures: slices.Concat(r.refused, r.direct.failures)}
	for _, o := range r.outbounds {
		usable := r.direct.usable(o)
		all.add(&usable)
	}
	all.add(&r.front)
	all.add(&r.known)
	r.clusters = r.clusters.Become(all.clusters)
	r.endpoints = r.endpoints.Become(all.endpoints)
	r.listeners = r.listeners.Become(all.listeners)
	r.routes = r.routes.Become(all.routes)
	r.failures = all.failures
	r.distinct = r.clusters.Len() == len(all.clusters) && r.endpoints.Len() == len(all.endpoints) &&
		r.listeners.Len() == len(all.listeners) && r.routes.Len() == len(all.routes)
}

// patch puts what changed outbounds contribute into the tables, without gathering the rest. It
// reports whether that is possible: only if the names are the same as before and no two
// outbounds contribute the same name.
func (r *reach) patch(before map[*outbound]part) bool {
	if !r.distinct || len(r.failures) > 0 {
		return false
	}
	var all part
	for o, old := range before {
		if len(o.part.failures) > 0 || !o.part.sameNames(&old) {
			return false
		}
		all.add(&o.part)
	}
	r.clusters = r.clusters.With(all.clusters, nil)
	r.endpoints = r.endpoints.With(all.endpoints, nil)
	r.listeners = r.listeners.With(all.listeners, nil)
	r.routes = r.routes.With(all.routes, nil)
	return true
}

// outboundsOf lists the outbounds of a reach: the declared ones or, for proxies that may reach
// everything, one for each name of a service that the mesh has or knows.
func (p *Planner) outboundsOf(r *reach) []selection.Outbound {
	r.known = part{}
	if !r.shape.Everything {
		return r.shape.Outbounds
	}
	out, hosts, left := selection.VirtualNamed(p.state, r.shape.Reachable)
	r.known = known(hosts, left)
	return out
}

// resourced reports whether two versions of a policy name different sources.
func resourced(a, b *view.Policy) bool {
	if a == nil || b == nil {
		return true
	}
	return !slices.EqualFunc(a.Clients(), b.Clients(), func(x, y mesh.Tags) bool { return x.String() == y.String() })
}
