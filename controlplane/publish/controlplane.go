package publish

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/alarm"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/plan/edge"
	"github.com/meshgate/meshgate/xds/resource"
)

// gatewayPlane is a control plane with its gateways, grouped into variants.
type gatewayPlane struct {
	turns
	following[*view.Gateway]
	// enrolling is held from the moment a gateway's parameters are read until they are
	// planned. It is taken before the other locks.
	enrolling sync.Mutex

	name     string
	fresh    func(edge.Params) gatewayPlanner
	variants map[edge.Params]*variant
	nodes    map[string]edge.Params
	// state is the newest state taken.
	state *view.Gateway
	// deleted says that the control plane was deleted. Its name does not come back.
	deleted bool
	check   bool
	// differs is called when a plan differs from a plan made from nothing.
	differs func()
	log     *slog.Logger
}

// variant is a group of gateways with equal parameters. A variant that cannot be planned keeps
// its last good set and does not affect the other variants.
type variant struct {
	planner gatewayPlanner
	result  edge.Result
	retry   retry
	nodes   int
}

// controlPlane returns a control plane and follows it from now on, unless it was deleted. views opens its
// view.
func (l *Loop) controlPlane(
	ctx context.Context, name string, views func(context.Context, string) (*view.Scope[*view.Gateway], error),
) (*gatewayPlane, error) {
	if p := l.followedPlane(name); p != nil {
		return p, nil
	}
	defer l.begin(ControlPlaneScope(name))()
	scope, err := views(ctx, name)
	if err != nil {
		return nil, err
	}
	p := &gatewayPlane{
		turns: newTurns(), following: following[*view.Gateway]{scope: scope}, name: name, fresh: l.gateways, variants: map[edge.Params]*variant{},
		nodes: map[string]edge.Params{}, state: scope.State(), check: l.Check, differs: func() { l.differences.Add(1) }, log: l.Log,
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if first := l.enterControlPlane(p); first != p {
		scope.Release()
		return first, nil
	}
	p.sub = scope.Subscribe(p.wake)
	p.revision, p.tried = p.state.Revision(), p.state.Revision()
	l.announce(p, nil)
	l.reap(p) // it may have been deleted meanwhile
	return p, nil
}

// followedPlane returns a control plane if it is followed, else nil.
func (l *Loop) followedPlane(name string) *gatewayPlane {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, _ := l.planes[ControlPlaneScope(name)].(*gatewayPlane)
	return p
}

// enterControlPlane makes the loop follow a control plane and tells the meshes that look at
// it. If another goroutine was first, it returns the plane of that goroutine.
func (l *Loop) enterControlPlane(p *gatewayPlane) *gatewayPlane {
	l.mu.Lock()
	defer l.mu.Unlock()
	if first, ok := l.planes[p.id()].(*gatewayPlane); ok {
		return first
	}
	if c := l.coming[p.name]; c != nil {
		p.deleted = c.deleted
	}
	l.add(p)
	delete(l.unread, p.name)
	l.followed.Store(p.name, p.scope)
	l.tellLookers(p.name)
	return p
}

// join registers a gateway and returns its set. A gateway whose parameters cannot be
// planned does not join, so that it does not hold up other gateways.
func (p *gatewayPlane) join(id string, params edge.Params, now time.Time) (*resource.Set, error) {
	if now, known := p.nodes[id]; known && now == params {
		return p.variants[params].result.Set, nil
	}
	c := p.variants[params]
	if c == nil {
		c = &variant{planner: p.fresh(params)}
		if p.plan(c, p.state, now); c.retry.err != nil {
			return nil, fault.Wrap(fault.Unavailable, c.retry.err, "the configuration of control plane %s cannot be made", p.name)
		}
		p.variants[params] = c
	}
	p.leave(id, now)
	p.nodes[id] = params
	c.nodes++
	return c.result.Set, nil
}

func (p *gatewayPlane) leave(id string, _ time.Time) {
	params, known := p.nodes[id]
	if !known {
		return
	}
	delete(p.nodes, id)
	c := p.variants[params]
	if c.nodes--; c.nodes == 0 {
		delete(p.variants, params)
	}
}

func (p *gatewayPlane) id() string { return ControlPlaneScope(p.name) }

func (p *gatewayPlane) gone() bool { return p.deleted && len(p.nodes) == 0 }

func (p *gatewayPlane) due() (at time.Time) {
	for _, c := range p.variants {
		at = alarm.Sooner(at, c.retry.at)
	}
	return at
}

func (p *gatewayPlane) update(now time.Time) batch {
	change := p.sub.Take()
	p.state = change.State
	touched := change.All || len(change.Keys) > 0
	changed, failed, waits := map[*variant]bool{}, false, false
	for _, c := range p.variants {
		if touched {
			c.retry.changed()
		}
		if touched && c.retry.err == nil || c.retry.err != nil && !c.retry.waits(now) {
			changed[c] = p.plan(c, change.State, now)
		} else {
			waits = waits || c.retry.err != nil
		}
		failed = failed || c.retry.err != nil
	}
	if !failed {
		p.revision = max(p.revision, change.State.Revision())
	}
	p.attempted(change.State.Revision(), touched, waits)
	out := batch{}
	for id, params := range p.nodes {
		if c := p.variants[params]; changed[c] {
			out[id] = c.result.Set
		}
	}
	return out
}

// hold compares the plan of a variant with a plan made from nothing.
func (p *gatewayPlane) hold(c *variant, g *view.Gateway) {
	var err error
	if failed := guard(func() { err = c.planner.Check(g, c.result) }); failed != nil {
		err = failed
	}
	if err != nil {
		p.differs()
		p.log.Error("the plan of a control plane is not what a plan from nothing makes", "control_plane", p.name, "error", err)
	}
}

// plan plans a variant and reports whether its bytes differ. An unchanged set stays the same
// pointer. A planner that failed is used again: it remembers the last good versions.
func (p *gatewayPlane) plan(c *variant, g *view.Gateway, now time.Time) (changed bool) {
	var next edge.Result
	if err := guard(func() { next = c.planner.Plan(g) }); err != nil {
		c.retry.failed(err, now)
		p.log.Error("planning a control plane failed", "control_plane", p.name, "error", err.Error(), "again_in", c.retry.pause.String())
		return false
	}
	before, failed := c.result.Set, c.result.Failures
	c.result, c.retry = next, retry{}
	if p.check {
		p.hold(c, g)
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

// unheardOf returns the failures that the previous plan did not have, so that each failure
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

func (p *gatewayPlane) failures() listed {
	var out []Failure
	if err := p.scope.Err(); err != nil {
		out = append(out, Failure{ControlPlane: p.name, Failure: failure{Cell: "view", Err: err, Kept: true}})
	}
	for _, c := range p.state.LeftOut() {
		out = append(out, Failure{ControlPlane: p.name, Failure: failure{Cell: c.Left.Kind + " " + c.Left.Name + " of " + c.Left.Scope, Err: c}})
	}
	for _, c := range p.variants {
		if c.retry.err != nil {
			out = append(out, Failure{ControlPlane: p.name, Failure: failure{Cell: cellPlan, Err: c.retry.err, Kept: true}})
		}
		for _, f := range c.result.Failures {
			out = append(out, Failure{ControlPlane: p.name, Failure: f})
		}
	}
	if len(out) == 0 {
		return nil
	}
	return listed{"": out}
}
