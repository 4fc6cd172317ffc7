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
	// kept are the failures for which a proxy really has a last good version. broken says that
	// something of some proxy cannot be made.
	kept   map[string]map[string]bool
	broken bool
}

// present copies what is known of the connected proxies.
func (p *meshPlane) present() company {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := company{joined: maps.Clone(p.joined), bare: map[string]bool{}, secured: maps.Clone(p.secured), looks: map[string]sight{}, kept: map[string]map[string]bool{}}
	for dataplane, s := range p.says {
		c.bare[dataplane] = s.bareAll()
	}
	for dataplane, fs := range p.listed {
		for _, f := range fs {
			c.broken = c.broken || !f.Awaited
			if f.Kept && dataplane != "" {
				if c.kept[dataplane] == nil {
					c.kept[dataplane] = map[string]bool{}
				}
				c.kept[dataplane][f.Cell] = true
			}
		}
	}
	for name, k := range p.looks {
		c.looks[name] = sight{k.state, k.err}
	}
	return c
}

// foresee implements imagined.
func (m *imaginedMesh) foresee(ctx context.Context, l *Loop, room int) Foreseen {
	p, of := m.plane, Failure{Mesh: m.plane.name}
	f := Foreseen{Scope: p.id(), Mesh: &m.Imagined}
	f.notFollowed(m.Err, of)
	with := p.present()
	names := with.choose(m, room)
	f.Compared, f.Omitted = len(names), len(with.joined)-len(names)
	for _, name := range slices.Sorted(maps.Keys(with.joined)) {
		_, was := m.Before.Dataplane(name)
		if _, is := m.After.Dataplane(name); was && !is {
			f.Gone = append(f.Gone, name)
		}
	}
	e := &elsewhere{ctx: ctx, l: l, looks: with.looks, imagined: m.outside}
	a := ahead{p: p, names: names, with: with, tally: tally{}}
	unplanned := guard(func() { a.begin(l.sidecars(e, m.Before)) })
	if ctx.Err() != nil {
		return f
	}
	e.turn()
	if err := guard(func() {
		if unplanned != nil { // the real planner starts from nothing, too
			a.begin(l.sidecars(e, m.After))
			a.before, a.after = with.joined, a.before
			return
		}
		a.proceed(m)
	}); err != nil {
		a.tally.unplanned(of, err, 0, unplanned != nil)
	} else {
		f.Fates = a.fates(m.After)
	}
	f.complete(a.tally)
	return f
}

// choose returns the proxies that are compared: of those that are too many, one for each set of
// services.
func (c *company) choose(m *imaginedMesh, room int) []string {
	written := map[string]bool{}
	for _, key := range m.Keys {
		written[key.Name] = written[key.Name] || key.Kind == mesh.Dataplanes.Name
	}
	return choose(slices.Sorted(maps.Keys(c.joined)), room,
		func(name string) bool { return written[name] }, func(name string) string { return served(m.Before, name) })
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
	// was and is are what cannot be made of each.
	was, is map[string][]failure
	tally   tally
}

// begin plans from nothing.
func (a *ahead) begin(planner sidecarPlanner) {
	a.planner, a.was = planner, map[string][]failure{}
	for name, yes := range a.with.secured {
		planner.Secured(name, yes)
	}
	for _, name := range a.names {
		planner.Bare(name, a.with.bare[name])
	}
	a.join()
	a.before = planner.Plan()
	a.is = a.failures()
}

// failures lists what cannot be made of each proxy. A planner that starts from nothing does not
// know what proxies have of it.
func (a *ahead) failures() map[string][]failure {
	out := map[string][]failure{}
	for _, name := range a.names {
		for _, x := range slices.Concat(a.planner.Failures(name), a.planner.Unserved(name)) {
			x.Kept = x.Kept || a.with.kept[name][x.Cell]
			out[name] = append(out[name], x)
		}
	}
	return out
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
func (a *ahead) proceed(m *imaginedMesh) {
	a.was = a.is
	if len(m.outside) > 0 {
		a.planner.Outside()
	}
	a.planner.Update(m.After, m.Keys, m.All)
	a.join()
	a.after = a.planner.Plan()
	a.is = a.failures()
}

// fates says what becomes of the proxies, and notes their failures. Those whose dataplane is gone
// keep what they have until they are turned away.
func (a *ahead) fates(after *view.Mesh) (out []Fate) {
	for _, name := range a.names {
		if _, is := after.Dataplane(name); !is {
			continue
		}
		a.tally.differ(Failure{Mesh: a.p.name}, a.was[name], a.is[name], 1)
		if f, differs := a.fate(name); differs {
			out = append(out, f)
		}
	}
	return out
}

// fate says what becomes of a proxy. Where everything can be made after the write, nothing is kept
// any more, so the proxy then has what a plan from nothing has. Where something cannot, the running
// planner may have a last good version of it if something could not be made before, even of another
// proxy: alike proxies share what is kept. Nobody here knows that.
func (a *ahead) fate(name string) (f Fate, differs bool) {
	f = Fate{Node: mesh.NodeID(a.p.name, name), Before: a.before[name], After: a.after[name], Held: a.with.joined[name]}
	if f.After == nil {
		f.After = f.Before
	}
	if f.Uncertain = a.with.broken && broken(a.is[name]); !f.Uncertain && broken(a.was[name]) {
		f.Before = f.Held
	}
	return f, f.Uncertain || f.After != nil && !f.After.Equal(f.Before)
}

// broken reports whether something cannot be made.
func broken(fs []failure) bool {
	return slices.ContainsFunc(fs, func(f failure) bool { return !f.Awaited })
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
