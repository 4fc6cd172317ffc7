package publish

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

// company is what a planner that works apart has to know of the proxies of a mesh.
type company struct {
	joined  map[string]*resource.Set
	bare    map[string]bool
	secured map[string]bool
	looks   map[string]sight
}

// present copies what is known of the connected proxies.
func (p *meshPlane) present() company {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := company{joined: maps.Clone(p.joined), bare: map[string]bool{}, secured: maps.Clone(p.secured), looks: map[string]sight{}}
	for dataplane, s := range p.says {
		c.bare[dataplane] = s.bareAll()
	}
	for name, k := range p.looks {
		c.looks[name] = sight{k.state, k.err}
	}
	return c
}

// foreseeMesh foresees the proxies of a mesh.
func (l *Loop) foreseeMesh(ctx context.Context, m *imaginedMesh, room int) (f Foreseen) {
	p := m.plane
	f.Scope, f.Mesh = p.id(), &m.Imagined
	if m.Err != nil {
		f.notFollowed(m.Err, Failure{Mesh: p.name})
	}
	with := p.present()
	names := with.choose(m, room)
	f.Compared, f.Omitted = len(names), len(with.joined)-len(names)
	for _, name := range slices.Sorted(maps.Keys(with.joined)) {
		_, was := m.Before.Dataplane(name)
		if _, is := m.After.Dataplane(name); was && !is {
			f.Dataplanes = append(f.Dataplanes, name)
		}
	}
	e := &elsewhere{ctx: ctx, l: l, looks: with.looks, imagined: m.outside}
	a := ahead{p: p, names: names, with: with, tally: tally{}}
	failed := func(err error, already bool) {
		a.tally.note(Failure{Mesh: p.name, Failure: failure{Cell: "plan", Err: err, Kept: true}}, 0, already)
	}
	if err := guard(func() { a.begin(l.sidecars(e, m.Before)) }); err != nil {
		failed(err, true)
	} else if err := guard(func() { a.proceed(m, e) }); err != nil {
		failed(err, false)
	} else {
		f.Fates = a.fates()
	}
	f.Failures = append(f.Failures, a.tally.list()...)
	f.order()
	return f
}

// choose returns the proxies that are compared: if they are too many, first those whose dataplane
// is written, then one for each set of services, so that what is left out has likely its like
// among the others.
func (c *company) choose(m *imaginedMesh, room int) []string {
	all := slices.Sorted(maps.Keys(c.joined))
	if len(all) <= room {
		return all
	}
	written := map[string]bool{}
	for _, key := range m.Keys {
		written[key.Name] = written[key.Name] || key.Kind == mesh.Dataplanes.Name
	}
	var first, second, third []string
	seen := map[string]bool{}
	for _, name := range all {
		serves := served(m.Before, name)
		switch {
		case written[name]:
			first = append(first, name)
		case !seen[serves]:
			second = append(second, name)
		default:
			third = append(third, name)
		}
		seen[serves] = true
	}
	return slices.Concat(first, second, third)[:max(room, 0)]
}

// served returns the services that a dataplane serves, as one text.
func served(m *view.Mesh, name string) (out string) {
	d, ok := m.Dataplane(name)
	if !ok || d.Spec.Networking == nil {
		return ""
	}
	for i := range d.Spec.Networking.Inbound {
		out += d.Spec.Networking.Inbound[i].Tags.Service() + " "
	}
	return out
}

// ahead plans some proxies of a mesh before and after a write.
type ahead struct {
	p       *meshPlane
	names   []string
	with    company
	planner sidecarPlanner
	// before and after are the sets. Only changed ones are in after.
	before, after map[string]*resource.Set
	tally         tally
}

// begin plans from nothing.
func (a *ahead) begin(planner sidecarPlanner) {
	a.planner = planner
	for name, yes := range a.with.secured {
		planner.Secured(name, yes)
	}
	for _, name := range a.names {
		planner.Bare(name, a.with.bare[name])
	}
	a.join()
	a.before = planner.Plan()
}

// join joins the proxies whose dataplane exists. They all have a set already.
func (a *ahead) join() {
	for _, name := range a.names {
		if a.planner.Join(name) {
			a.planner.Begun(name)
		}
	}
}

// proceed plans the write.
func (a *ahead) proceed(m *imaginedMesh, e *elsewhere) {
	known := map[string]map[string]bool{}
	for _, name := range a.names {
		known[name] = cells(slices.Concat(a.planner.Failures(name), a.planner.Unserved(name)))
	}
	e.turn()
	if len(m.outside) > 0 {
		a.planner.Outside()
	}
	a.planner.Update(m.After, m.Keys, m.All)
	a.join()
	a.after = a.planner.Plan()
	for _, name := range a.names {
		for _, x := range slices.Concat(a.planner.Failures(name), a.planner.Unserved(name)) {
			if already := known[name][cellOf(x)]; !already || !x.Awaited {
				a.tally.note(Failure{Mesh: a.p.name, Failure: x}, 1, already)
			}
		}
	}
}

func (a *ahead) fates() (out []Fate) {
	for name, set := range a.after {
		out = append(out, Fate{mesh.NodeID(a.p.name, name), a.before[name], set, a.with.joined[name]})
	}
	return out
}

var _ policy.Outside = (*elsewhere)(nil)

// elsewhere shows control planes to a planner that works apart: as they were before a write, and
// after turn as they are after it.
type elsewhere struct {
	ctx      context.Context //nolint:containedctx // that of the one call that plans
	l        *Loop
	looks    map[string]sight
	imagined map[string]view.Imagined[*view.Gateway]

	// mu guards looks and after: a planner may ask from several goroutines.
	mu    sync.Mutex
	after bool
}

func (e *elsewhere) turn() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.after = true
}

// Gateway implements policy.Outside. A control plane that nothing has looked at so far is read
// and not followed.
func (e *elsewhere) Gateway(name string) (*view.Gateway, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i, ok := e.imagined[name]; ok && e.after {
		return i.After, nil
	} else if ok {
		return i.Before, nil
	}
	s, known := e.looks[name]
	if !known {
		scope, err := e.l.Views.ControlPlane(e.ctx, name)
		if s.err = err; err == nil {
			s.state = scope.State()
			scope.Release()
		}
		e.looks[name] = s
	}
	return s.state, s.err
}
