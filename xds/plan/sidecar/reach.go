package sidecar

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/selection"
)

// reach is what classes have in common that get to the same services in the same way:
// their outbounds, which are planned once for all of them. Classes share a reach if
// nothing that an outbound is made of tells them apart, and that is all of its key.
type reach struct {
	key   reachKey
	shape reachShape
	// sources are the tags of one of the classes. Those of the others differ from
	// them in nothing that a policy on connections asks for.
	sources   []mesh.Tags
	classes   map[*class]struct{}
	outbounds []*outbound
	// front is what stands before the outbounds of a gateway.
	front part
	// ports finds the outbounds that listen on a port.
	ports map[uint16][]*outbound

	// stale pieces are to be built at the next Plan; relist says that the list of
	// outbounds is to be made anew.
	stale  map[*outbound]struct{}
	relist bool
	// refused are the outbounds that no proxy could have.
	refused []plan.Failure

	clusters, endpoints, listeners, routes *resource.Table
	failures                               []plan.Failure
	// contributions are those of the policies of the outbounds.
	contributions []*contribution
	// distinct says that no two outbounds contribute one name.
	distinct bool
}

// reachKey is everything that an outbound is made of.
type reachKey struct {
	shape string
	// proxy are the choices for the proxy of policies that edit outbounds.
	proxy *policy.Choices
}

// reachShape is what of a class decides where it gets to.
type reachShape struct {
	Outbounds   []selection.Outbound
	Transparent bool
	Everything  bool
	Reachable   []string
	// Gateway are the tags of a proxy of which the outbounds are behind a front.
	Gateway mesh.Tags `json:",omitempty"`
	// Zone is set while the mesh prefers near endpoints.
	Zone string
	// Selectors are the sources of policies on connections that match the class, in
	// canonical form. They decide which of the policies are chosen: a policy ranks by
	// the best of its sources that match, and a source has the same rank for everybody.
	Selectors []string
}

// selector is a source of a policy on connections.
type selector struct {
	canonical string
	tags      mesh.Tags
}

// survey lists the sources by which policies on connections tell proxies apart, and
// reports whether they are others than before.
func (p *Planner) survey() bool {
	var found []selector
	for _, pol := range p.policies {
		if !aboutConnections(pol) {
			continue
		}
		for x := range p.state.Policies(pol.Kind) {
			for _, tags := range x.Sources {
				found = append(found, selector{tags.String(), tags})
			}
		}
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

// reachOf is what decides where a class gets to.
func (p *Planner) reachOf(c *class) reachShape {
	s := reachShape{
		Outbounds: c.shape.Outbounds, Transparent: c.shape.Transparent, Everything: c.shape.Everything, Reachable: c.shape.Reachable,
	}
	if p.front != nil && c.shape.Builtin {
		s.Gateway = c.shape.Gateway
	}
	if p.facts.localityAware {
		s.Zone = zone(c.sources)
	}
	for _, selector := range p.selectors {
		if slices.ContainsFunc(c.sources, func(tags mesh.Tags) bool { return mesh.Matches(selector.tags, tags) }) {
			s.Selectors = append(s.Selectors, selector.canonical)
		}
	}
	return s
}

// place puts a class into its reach, making that if it is the first there. One that
// leaves another begins with what it had there, so that what cannot be made stays as
// it last was.
func (p *Planner) place(c *class) {
	outbounds := p.forProxy(c)
	s := p.reachOf(c)
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

// displace takes a class out of its reach. The last one takes the reach with it.
func (p *Planner) displace(c *class) {
	r := c.reach
	if r == nil {
		return
	}
	c.reach = nil
	delete(r.classes, c)
	for other := range r.classes {
		// Those of a class that is not here any more may match what others do not.
		r.sources = other.sources
		return
	}
	for _, o := range r.outbounds {
		p.unlink(o)
	}
	delete(p.reaches, r.key)
	delete(p.moved, r)
}

// inherit begins with the outbounds of another reach, all of them to be built.
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
	r.contributions, r.front = old.contributions, old.front
	r.clusters, r.endpoints, r.listeners, r.routes = old.clusters, old.endpoints, old.listeners, old.routes
}

// touch has an outbound built again.
func (p *Planner) touch(o *outbound) {
	o.reach.stale[o] = struct{}{}
	p.moved[o.reach] = struct{}{}
}

// touchAll has all of a reach built again.
func (p *Planner) touchAll(r *reach) {
	for _, o := range r.outbounds {
		r.stale[o] = struct{}{}
	}
	p.moved[r] = struct{}{}
}

// follow builds the stale outbounds of a reach and its tables. Its classes are built
// next if that changes anything for them.
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
	if r.relist || r.shape.Gateway != nil || !r.patch(before) {
		r.gather()
	}
	clear(r.stale)
	r.relist = false
	if p.has.contribute {
		r.collectContributions()
	}
	if relisted || len(was.failures)+len(r.failures) > 0 || !r.sameTables(&was) || !slices.Equal(r.contributions, was.contributions) {
		for c := range r.classes {
			p.mark(c)
		}
	}
}

func (r *reach) sameTables(o *reach) bool {
	return r.clusters == o.clusters && r.endpoints == o.endpoints && r.listeners == o.listeners && r.routes == o.routes
}

// rename builds the outbounds again of which clusters get other names.
func (p *Planner) rename(r *reach, before map[*outbound]part) {
	for _, o := range r.tellApart() {
		if _, ok := before[o]; !ok {
			before[o] = o.part
		}
		p.buildOutbound(o)
	}
}

// list makes the outbounds of a reach, keeping those that stay.
func (p *Planner) list(r *reach) {
	before := map[string]*outbound{}
	for _, o := range r.outbounds {
		before[o.id()] = o
	}
	r.outbounds, r.ports = r.outbounds[:0], map[uint16][]*outbound{}
	shapes, refused := usable(p.outboundsOf(&r.shape))
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
		if r.shape.Gateway == nil {
			r.ports[at.Port()] = append(r.ports[at.Port()], o)
		}
	}
	for _, o := range before {
		p.unlink(o)
		delete(r.stale, o)
	}
}

// gather makes the tables. Of two outbounds that contribute one name the first wins:
// a cluster that both reach is one cluster. A table of which no bytes differ stays the
// same pointer.
func (r *reach) gather() {
	all := part{failures: slices.Clone(r.refused)}
	for _, o := range r.outbounds {
		all.add(&o.part)
	}
	all.add(&r.front)
	r.clusters = r.clusters.Become(all.clusters)
	r.endpoints = r.endpoints.Become(all.endpoints)
	r.listeners = r.listeners.Become(all.listeners)
	r.routes = r.routes.Become(all.routes)
	r.failures = all.failures
	r.distinct = r.clusters.Len() == len(all.clusters) && r.endpoints.Len() == len(all.endpoints) &&
		r.listeners.Len() == len(all.listeners) && r.routes.Len() == len(all.routes)
}

// patch puts what outbounds contribute into the tables without gathering all
// that did not change. It can only if the names are those of before and no two
// outbounds contribute one name.
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

// outboundsOf lists the outbounds of a reach: the declared ones, or for proxies
// that may reach everything one for each service that the mesh has or knows.
func (p *Planner) outboundsOf(s *reachShape) []selection.Outbound {
	if !s.Everything {
		return s.Outbounds
	}
	return selection.Virtual(p.state, s.Reachable)
}

// resourced reports whether two versions of a policy name other sources.
func resourced(a, b *view.Policy) bool {
	if a == nil || b == nil {
		return true
	}
	return !slices.EqualFunc(a.Sources, b.Sources, func(x, y mesh.Tags) bool { return x.String() == y.String() })
}
