package sidecar

import (
	"fmt"
	"slices"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

// Planner plans the connected proxies of one mesh. It is used by one goroutine.
// The order of calls is: any number of Update, Join, Leave, Bare, Secured and
// Outside, then one Plan.
type Planner struct {
	// policies is ordered by phase, otherwise as given.
	policies []*policy.Policy
	outside  policy.Outside
	interner *policy.Interner

	state   *view.Mesh
	facts   facts
	proxies map[string]*proxy
	classes map[string]*class
	// byService leads from a service to the outbounds whose clusters it fills.
	byService map[string]map[*outbound]struct{}
	// bare are the dataplanes whose proxies lack the filter.
	bare map[string]bool
	// secured are the dataplanes that hold an identity and take mutual TLS.
	secured map[string]bool

	round uint64
	cells cells
	ca    *resource.Table

	// dirty are the classes of which something may differ, and loose the proxies
	// whose own part may.
	dirty map[*class]struct{}
	loose map[*proxy]struct{}
}

// cells are the memories of all builders.
type cells struct {
	splits         *memo[splitKey, *draft.Split]
	clusters       *memo[clusterKey, *resource.Resource]
	locals         *memo[localKey, *resource.Resource]
	assignments    *memo[assignmentKey, *resource.Resource]
	outbounds      *memo[outboundKey, *resource.Resource]
	outboundRoutes *memo[outboundRoutesKey, *resource.Resource]
	chains         *memo[inboundKey, *chains]
	inboundRoutes  *memo[inboundRoutesKey, *resource.Resource]
	listeners      *memo[listenerKey, *resource.Resource]
}

// splitKey is everything that a split is made of.
type splitKey struct {
	selection *policy.Selection
	tags      string
}

// proxy is one connected dataplane.
type proxy struct {
	name  string
	class *class
	// listening are the addresses of its inbounds, in the order of the shape, and
	// address is its own.
	listening []string
	address   string
	set       *resource.Set
	failures  []plan.Failure
	// own is what it does not share with its class.
	own part
	// hidden are the listeners of the class that would be in its way.
	hidden []string
	// clusters and listeners are those of the class with its own.
	clusters, listeners mixed
}

// New returns a planner of a mesh in a state. outside answers what policies ask
// of beyond the mesh; nil if no policy does.
func New(policies []*policy.Policy, outside policy.Outside, state *view.Mesh) *Planner {
	if len(policies) > maxPolicies {
		panic("sidecar: more kinds of policies than a key has room for")
	}
	p := &Planner{
		policies: slices.Clone(policies), outside: outside, interner: &policy.Interner{}, state: state, facts: factsOf(state),
		proxies: map[string]*proxy{}, classes: map[string]*class{}, byService: map[string]map[*outbound]struct{}{},
		bare: map[string]bool{}, secured: map[string]bool{}, dirty: map[*class]struct{}{}, loose: map[*proxy]struct{}{},
		cells: cells{
			newMemo[splitKey, *draft.Split](), newMemo[clusterKey, *resource.Resource](), newMemo[localKey, *resource.Resource](),
			newMemo[assignmentKey, *resource.Resource](), newMemo[outboundKey, *resource.Resource](),
			newMemo[outboundRoutesKey, *resource.Resource](), newMemo[inboundKey, *chains](),
			newMemo[inboundRoutesKey, *resource.Resource](), newMemo[listenerKey, *resource.Resource](),
		},
	}
	slices.SortStableFunc(p.policies, func(a, b *policy.Policy) int { return int(a.Phase) - int(b.Phase) })
	p.trust()
	return p
}

// State is the state that the next Plan shows.
func (p *Planner) State() *view.Mesh { return p.state }

// Join adds a proxy by the name of its dataplane and reports whether there is
// such a dataplane. A proxy that joined before stays as it is.
func (p *Planner) Join(name string) bool {
	if p.proxies[name] != nil {
		return true
	}
	d, ok := p.state.Dataplane(name)
	if !ok {
		return false
	}
	x := &proxy{name: name}
	p.proxies[name] = x
	p.classify(x, d)
	return true
}

// Bare says whether the proxy of a dataplane lacks the filter's library: an Envoy
// that nobody supervises may. A proxy of which nothing is said has it. What is said
// before Join counts for it, and it is forgotten by Leave.
func (p *Planner) Bare(name string, yes bool) {
	if p.bare[name] == yes {
		return
	}
	if yes {
		p.bare[name] = true
	} else {
		delete(p.bare, name)
	}
	if d, ok := p.state.Dataplane(name); ok && p.proxies[name] != nil {
		p.classify(p.proxies[name], d)
	}
}

// Leave forgets a proxy. The last one of a class takes the class with it.
func (p *Planner) Leave(name string) {
	x := p.proxies[name]
	if x == nil {
		return
	}
	delete(p.proxies, name)
	delete(p.bare, name)
	delete(p.loose, x)
	p.unclassify(x)
}

// Plan builds what may differ and returns the sets of the proxies for which it
// does, by dataplane name.
func (p *Planner) Plan() map[string]*resource.Set {
	p.round++
	for c := range p.dirty {
		p.build(c)
	}
	clear(p.dirty)
	changed := map[string]*resource.Set{}
	for x := range p.loose {
		if x.class.held() != "" {
			continue // all of the class are loose again when it is built
		}
		if set := p.assemble(x); !set.Equal(x.set) {
			x.set = set
			changed[x.name] = set
		}
	}
	clear(p.loose)
	p.sweep()
	return changed
}

// Set is what a proxy holds since the last Plan, nil for one that is not known.
func (p *Planner) Set(name string) *resource.Set {
	if x := p.proxies[name]; x != nil {
		return x.set
	}
	return nil
}

// Failures is what of a proxy is not as it is configured: left out, or kept as
// it last was good.
func (p *Planner) Failures(name string) []plan.Failure {
	x := p.proxies[name]
	if x == nil {
		return nil
	}
	return slices.Concat(x.class.failures, x.failures)
}

// Unserved is what of a proxy leads to services that nobody serves. That is no failure:
// everything is made as it is configured, and services come in any order. But it may be
// a mistyped name.
func (p *Planner) Unserved(name string) (out []plan.Failure) {
	x := p.proxies[name]
	if x == nil {
		return nil
	}
	for _, o := range x.class.outbounds {
		for _, service := range o.unserved {
			out = append(out, plan.Failure{
				Cell: outboundName(o.shape.Address, o.shape.Port), Err: fmt.Errorf("no dataplane of the mesh serves %q", service), Awaited: true,
			})
		}
	}
	return out
}

// sweep forgets cells that nobody uses. Classes ask for their cells only when
// they are built, so everything is asked for once before.
func (p *Planner) sweep() {
	c := &p.cells
	if !c.clusters.crowded() && !c.assignments.crowded() && !c.outbounds.crowded() && !c.outboundRoutes.crowded() &&
		!c.chains.crowded() && !c.inboundRoutes.crowded() && !c.listeners.crowded() && !c.splits.crowded() && !c.locals.crowded() {
		return
	}
	p.round++
	for _, class := range p.classes {
		for _, o := range class.outbounds {
			p.buildOutbound(o)
		}
		for _, in := range class.inbounds {
			p.buildInbound(class, in)
		}
	}
	for _, x := range p.proxies {
		p.buildOwn(x)
	}
	c.splits.sweep(p.round)
	c.clusters.sweep(p.round)
	c.locals.sweep(p.round)
	c.assignments.sweep(p.round)
	c.outbounds.sweep(p.round)
	c.outboundRoutes.sweep(p.round)
	c.chains.sweep(p.round)
	c.inboundRoutes.sweep(p.round)
	c.listeners.sweep(p.round)
}
