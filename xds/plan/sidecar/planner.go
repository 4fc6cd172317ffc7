package sidecar

import (
	"fmt"
	"net/netip"
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
	// policies is ordered by phase. Policies of one phase keep the given order.
	policies []*policy.Policy
	// kinds are the kinds of destinations. A service belongs to the first kind that has it.
	kinds   []DestinationKind
	outside policy.Outside
	// log never changes during the life of the planner, so it is part of no key.
	log      accesslog.Settings
	interner *policy.Interner
	picked   [layers]picks
	// room is where the policies for one place are chosen.
	room [4]*view.Policy
	// deciders holds, by the index of a policy, the index of the one that decides instead of it
	// where it is chosen, or -1.
	deciders []int
	// has says which rare edits occur in any policy.
	has has

	state   *view.Mesh
	facts   meshSettings
	proxies map[string]*proxy
	classes map[string]*class
	reaches map[reachKey]*reach
	// selectors are the sources by which policies on connections distinguish proxies.
	selectors []selector
	// byService maps a service to the outbounds whose clusters contain its endpoints.
	byService map[string]map[*outbound]struct{}
	// bare are the dataplanes whose proxies lack the filter.
	bare map[string]bool
	// secured are the dataplanes that have an identity and accept mutual TLS.
	secured map[string]bool

	round uint64
	cells cells
	// ca holds the roots of the mesh, and others those of other meshes, which only those proxies get that
	// judge by them. crossed is what listeners for other meshes go by.
	ca, others *resource.Table
	crossed    crossed

	// moved, dirty and loose hold what the next Plan must look at: reaches, classes, and
	// proxies whose own part may differ.
	moved map[*reach]struct{}
	dirty map[*class]struct{}
	loose map[*proxy]struct{}
	// compare remembers during one Plan which tables differ.
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
	// listening are the addresses of its inbounds, in the order of the shape. address is the
	// address of the proxy.
	listening []string
	address   string
	// owned are the addresses that the dataplane says are its own.
	owned []netip.Addr
	// admin is the port for the administration of the proxy, 0 if the dataplane names none.
	admin uint16
	// probes are those of its inbounds.
	probes serviceProbes
	set    *resource.Set
	// begun says that the proxy has a set, possibly from an earlier planner.
	begun    bool
	failures []plan.Failure
	// own holds what the proxy does not share with its class.
	own part
	// hidden are the listeners of the class that this proxy must not have, because one of its
	// own listens there.
	hidden []string
	// clusters and listeners are those of the class and of the proxy. secrets are the roots of the
	// mesh, those of others by which the proxy judges, and what policies contribute.
	clusters, listeners, secrets mixed
	// finished are the tables after the raw phase. endpoints and routes are without those that
	// nothing asks for after it.
	finished          map[resource.TypeURL]finished
	endpoints, routes mixed
}

// New returns a planner of a mesh in a state. outside answers what policies ask about things
// beyond the mesh; it is nil if no policy asks. log says what proxies log. more are kinds of
// destinations in addition to [DestinationKinds].
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
	p.has, p.deciders = hasOf(p.policies), decidersOf(p.policies)
	p.trust()
	p.survey()
	return p
}

// State returns the state on which the next Plan is based.
func (p *Planner) State() *view.Mesh { return p.state }

// Join adds a proxy by the name of its dataplane and reports whether that dataplane exists. It
// does not change a proxy that joined before.
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

// Bare says whether the proxy of a dataplane lacks the filter's library, as an unsupervised
// Envoy may. Without a call of Bare, a proxy counts as having it. Bare may be called before
// Join. Leave forgets what it said.
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

// Leave forgets a proxy. With the last proxy of a class it also forgets the class.
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

// Plan builds what may differ. It returns the sets of the proxies for which something does
// differ, by dataplane name.
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
		// An empty set is not the same as none.
		if set := p.assemble(x); x.set == nil || !p.compare.Equal(set, x.set) {
			x.set = set
			changed[x.name] = set
		}
	}
	clear(p.loose)
	p.compare = resource.Comparer{}
	p.sweep()
	return changed
}

// Set returns the set of a proxy after the last Plan, nil if the proxy is not known.
func (p *Planner) Set(name string) *resource.Set {
	if x := p.proxies[name]; x != nil {
		return x.set
	}
	return nil
}

// Failures returns which parts of a proxy are not as configured: they were left out, or the
// last good version was kept.
func (p *Planner) Failures(name string) []plan.Failure {
	x := p.proxies[name]
	if x == nil {
		return nil
	}
	return slices.Concat(x.class.failures, x.failures)
}

// Unserved returns which parts of a proxy lead to services that nobody serves, or to services
// without proxies that it may not call, and which fields of policies have no effect there. This is
// not a failure: everything is made as configured, and services come in any order. But the name may
// be mistyped, and somebody may rely on the field.
func (p *Planner) Unserved(name string) (out []plan.Failure) {
	x := p.proxies[name]
	if x == nil {
		return nil
	}
	for _, o := range x.class.reach.outbounds {
		for _, service := range o.unserved {
			out = append(out, plan.Failure{
				Cell: o.cell(), Err: unservedText(p.state, service), Awaited: true,
			})
		}
		for _, service := range o.forbidden {
			out = append(out, plan.Failure{
				Cell: o.cell(), Err: fmt.Errorf("no permission of the mesh lets this proxy call %q", service), Awaited: true,
			})
		}
		out = append(out, o.idle...)
	}
	return once(append(out, x.class.shape.idleDirect()...))
}
