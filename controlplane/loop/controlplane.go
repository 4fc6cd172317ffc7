package loop

import (
	"context"
	"log/slog"
	"runtime/debug"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/plan/gateway"
	"github.com/meshgate/meshgate/xds/resource"
)

// controlPlane is a control plane with the classes of its gateways.
type controlPlane struct {
	name    string
	scope   *view.Scope[*view.Gateway]
	sub     *view.Subscription[*view.Gateway]
	classes map[gateway.Params]*class
	nodes   map[string]gateway.Params
	// state is the newest state taken; touched says that the last update had
	// changes in it.
	state   *view.Gateway
	touched bool
	// planned is the revision that all classes show.
	planned uint64
	// failed is why the last plan as a whole failed, if it did.
	failed error
	check  bool
	// differs is called when a plan is not what one from nothing makes.
	differs func()
	log     *slog.Logger
}

// class are the gateways with equal parameters.
type class struct {
	planner *gateway.Planner
	result  gateway.Result
	nodes   int
}

// controlPlane returns a control plane, following it from now on.
func (l *Loop) controlPlane(ctx context.Context, name string) (*controlPlane, error) {
	scope, err := l.Views.ControlPlane(ctx, name)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	id := "cp/" + name
	if p, ok := l.planes[id].(*controlPlane); ok {
		return p, nil
	}
	p := &controlPlane{
		name: name, scope: scope, sub: scope.Subscribe(l.wake), classes: map[gateway.Params]*class{}, nodes: map[string]gateway.Params{},
		state: scope.State(), planned: scope.State().Revision(), check: l.Check, differs: func() { l.differences++ }, log: l.Log,
	}
	l.planes[id] = p
	return p, nil
}

// join registers a gateway and returns its set.
func (p *controlPlane) join(id string, params gateway.Params) (*resource.Set, error) {
	if now, known := p.nodes[id]; known && now == params {
		return p.set(id), nil
	}
	c := p.classes[params]
	if c == nil {
		c = &class{planner: gateway.NewPlanner(params)}
		if !p.plan(c, p.scope.State()) {
			return nil, fault.New(fault.Unavailable, "the configuration of control plane %s cannot be made", p.name)
		}
		p.classes[params] = c
	}
	p.leave(id)
	p.nodes[id] = params
	c.nodes++
	return c.result.Set, nil
}

func (p *controlPlane) leave(id string) {
	params, known := p.nodes[id]
	if !known {
		return
	}
	delete(p.nodes, id)
	c := p.classes[params]
	if c.nodes--; c.nodes == 0 {
		delete(p.classes, params)
	}
}

func (p *controlPlane) set(id string) *resource.Set {
	params, known := p.nodes[id]
	if !known {
		return nil
	}
	return p.classes[params].result.Set
}

func (p *controlPlane) revision() uint64 { return p.planned }

func (p *controlPlane) close() { p.sub.Close() }

func (p *controlPlane) update() map[string]*resource.Set {
	change := p.sub.Take()
	p.state, p.touched = change.State, change.All || len(change.Keys) > 0
	changed := map[*class]bool{}
	if p.touched || p.failed != nil {
		for _, c := range p.classes {
			changed[c] = p.plan(c, change.State)
		}
	}
	if p.failed == nil {
		p.planned = max(p.planned, change.State.Revision())
	}
	out := map[string]*resource.Set{}
	for id, params := range p.nodes {
		if c := p.classes[params]; changed[c] {
			out[id] = c.result.Set
		}
	}
	return out
}

// plan plans a class and reports whether its bytes differ. An unchanged set
// stays the same pointer.
func (p *controlPlane) plan(c *class, g *view.Gateway) (changed bool) {
	defer func() {
		if v := recover(); v != nil {
			p.failed = &plan.Failed{Value: v, Stack: debug.Stack()}
			p.log.Error("planning a control plane failed", "control_plane", p.name, "error", p.failed.Error())
		}
	}()
	before, failed := c.result.Set, c.result.Failures
	c.result = c.planner.Plan(g)
	p.failed = nil
	if p.check {
		if err := c.planner.Check(g, c.result); err != nil {
			p.differs()
			p.log.Error("the plan of a control plane is not what a plan from nothing makes", "control_plane", p.name, "error", err)
		}
	}
	for _, f := range unheardOf(failed, c.result.Failures) {
		p.log.Warn("a resource cannot be configured", "control_plane", p.name, "resource", f.Cell, "kept_last_good", f.Kept, "error", f.Err)
	}
	if before != nil && before.Equal(c.result.Set) {
		c.result.Set = before
		return false
	}
	return true
}

// unheardOf returns the failures that the plan before did not have, so that each
// is logged once and not with every write.
func unheardOf(before, now []plan.Failure) []plan.Failure {
	known := map[string]bool{}
	for _, f := range before {
		known[f.Cell+" "+f.Err.Error()] = true
	}
	var out []plan.Failure
	for _, f := range now {
		if !known[f.Cell+" "+f.Err.Error()] {
			out = append(out, f)
		}
	}
	return out
}

func (p *controlPlane) failures() []Failure {
	var out []Failure
	if p.failed != nil {
		out = append(out, Failure{ControlPlane: p.name, Failure: plan.Failure{Cell: "plan", Err: p.failed, Kept: true}})
	}
	for _, c := range p.classes {
		for _, f := range c.result.Failures {
			out = append(out, Failure{ControlPlane: p.name, Failure: f})
		}
	}
	return out
}
