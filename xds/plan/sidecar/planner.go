package sidecar

import (
	"fmt"
	"slices"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/accesslog"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

// Planner plans the connected proxies of one mesh. It is used by one goroutine.
// The order of calls is: any number of Update, Join, Begun, Leave, Bare, Secured
// and Outside, then one Plan.
type Planner struct {
	// policies is ordered by phase, otherwise as given.
	policies []*policy.Policy
	// kinds are those of destinations; the first that has a service reaches it.
	kinds []DestinationKind
	// front makes the listeners of gateways; nil where the outbounds of every proxy listen
	// themselves.
	front   Front
	outside policy.Outside
	// log is the same as long as the planner is, and so in no key.
	log      accesslog.Settings
	interner *policy.Interner
	picked   [layers]picks
	// has says which of the edits that are rare any policy has.
	has has

	state   *view.Mesh
	facts   meshSettings
	proxies map[string]*proxy
	classes map[string]*class
	reaches map[reachKey]*reach
	// selectors are the sources by which policies on connections tell proxies apart.
	selectors []selector
	// byService leads from a service to the outbounds whose clusters it fills.
	byService map[string]map[*outbound]struct{}
	// bare are the dataplanes whose proxies lack the filter.
	bare map[string]bool
	// secured are the dataplanes that hold an identity and take mutual TLS.
	secured map[string]bool

	round uint64
	cells cells
	ca    *resource.Table

	// moved are the reaches and dirty the classes of which something may differ, and
	// loose the proxies whose own part may.
	moved map[*reach]struct{}
	dirty map[*class]struct{}
	loose map[*proxy]struct{}
	// compare remembers which tables differ, for the time of a Plan.
	compare resource.Comparer
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
	// begun says that it has a set, maybe of an earlier planner.
	begun    bool
	failures []plan.Failure
	// own is what it does not share with its class.
	own part
	// hidden are the listeners of the class that would be in its way.
	hidden []string
	// clusters and listeners are those of the class with its own, secrets those of the
	// mesh with what policies contribute.
	clusters, listeners, secrets mixed
	// finished are the tables after the raw stage.
	finished map[resource.TypeURL]finished
}

// New returns a planner of a mesh in a state. outside answers what policies ask
// of beyond the mesh; nil if no policy does. log says what proxies log. more are kinds
// of destinations beside [DestinationKinds].
func New(policies []*policy.Policy, outside policy.Outside, log accesslog.Settings, state *view.Mesh, more ...DestinationKind) *Planner {
	p := &Planner{
		policies: slices.Clone(policies), kinds: append(DestinationKinds(), more...), outside: outside, log: log, interner: &policy.Interner{}, state: state, facts: meshSettingsOf(state),
		proxies: map[string]*proxy{}, classes: map[string]*class{}, reaches: map[reachKey]*reach{}, byService: map[string]map[*outbound]struct{}{},
		bare: map[string]bool{}, secured: map[string]bool{}, moved: map[*reach]struct{}{}, dirty: map[*class]struct{}{}, loose: map[*proxy]struct{}{},
		cells: newCells(),
	}
	for i := range p.picked {
		p.picked[i] = make(picks, len(policies))
	}
	slices.SortStableFunc(p.policies, func(a, b *policy.Policy) int { return int(a.Phase) - int(b.Phase) })
	p.has = hasOf(p.policies)
	p.trust()
	p.survey()
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
	for r := range p.moved {
		p.follow(r)
	}
	clear(p.moved)
	for c := range p.dirty {
		p.build(c)
	}
	clear(p.dirty)
	changed := map[string]*resource.Set{}
	for x := range p.loose {
		if x.held() != "" {
			continue // all of the class are loose again when it is built
		}
		x.begun = true
		if set := p.assemble(x); !p.compare.Equal(set, x.set) {
			x.set = set
			changed[x.name] = set
		}
	}
	clear(p.loose)
	p.compare = resource.Comparer{}
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
	for _, o := range x.class.reach.outbounds {
		for _, service := range o.unserved {
			out = append(out, plan.Failure{
				Cell: outboundName(o.shape.Address, o.shape.Port), Err: fmt.Errorf("no dataplane of the mesh serves %q", service), Awaited: true,
			})
		}
	}
	return out
}
