package loop

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// meshPlane is a mesh with its connected proxies.
type meshPlane struct {
	name    string
	scope   *view.Scope[*view.Mesh]
	sub     *view.Subscription[*view.Mesh]
	planner *sidecar.Planner
	// joined are the connected proxies by the names of their dataplanes, with
	// whether they are bare.
	joined  map[string]bool
	planned uint64
	failed  error
	// fresh makes a planner from nothing; secured is what it is to be told.
	fresh   func(*view.Mesh) *sidecar.Planner
	secured map[string]bool
	// known are the failures of the last report.
	known map[string]bool
	check bool
	// differs is called when a batch is not what a plan from nothing makes.
	differs func()
	log     *slog.Logger
}

// mesh returns a mesh, following it from now on.
func (l *Loop) mesh(ctx context.Context, name string) (*meshPlane, error) {
	scope, err := l.Views.Mesh(ctx, name)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	opened, ok := l.planes["mesh/"+name].(*meshPlane)
	l.mu.Unlock()
	if ok {
		return opened, nil
	}
	var secured map[string]string
	if l.Issued != nil {
		if secured, err = l.Issued(ctx, name); err != nil {
			return nil, fmt.Errorf("certificates of mesh %s: %w", name, err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p, ok := l.planes["mesh/"+name].(*meshPlane); ok {
		return p, nil
	}
	p := &meshPlane{
		name: name, scope: scope, sub: scope.Subscribe(l.wake), joined: map[string]bool{}, check: l.Check,
		known: map[string]bool{}, secured: map[string]bool{}, differs: func() { l.differences++ }, log: l.Log,
	}
	p.fresh = func(state *view.Mesh) *sidecar.Planner { return sidecar.New(l.Policies, outside{l}, state) }
	for dataplane := range secured {
		p.secured[dataplane] = true
	}
	first := p.sub.Take()
	p.planned = first.State.Revision()
	p.restart(first.State)
	l.planes["mesh/"+name] = p
	return p, nil
}

// outside shows policies the control planes as meshes see them. The loop's lock
// is held whenever it is asked.
type outside struct{ l *Loop }

// Gateway implements policy.Outside.
func (o outside) Gateway(name string) *view.Gateway {
	if p, ok := o.l.planes["cp/"+name].(*controlPlane); ok {
		return p.state
	}
	return nil
}

// join registers a proxy and returns the sets that are new by it.
func (p *meshPlane) join(dataplane string, bare bool) (map[string]*resource.Set, error) {
	known := false
	out := p.plan(func() {
		p.planner.Bare(dataplane, bare)
		known = p.planner.Join(dataplane)
	})
	if !known {
		p.planner.Bare(dataplane, false)
		return nil, fault.New(fault.NotFound, "dataplane %s of mesh %s does not exist; create it first", dataplane, p.name)
	}
	p.joined[dataplane] = bare
	if set := p.planner.Set(dataplane); set != nil {
		out[mesh.NodeID(p.name, dataplane)] = set
		return out, nil
	}
	return nil, fault.New(fault.Unavailable, "the configuration of dataplane %s of mesh %s cannot be made", dataplane, p.name)
}

func (p *meshPlane) leave(node string) {
	dataplane := strings.TrimPrefix(node, p.name+".")
	delete(p.joined, dataplane)
	p.planner.Leave(dataplane)
}

func (p *meshPlane) set(node string) *resource.Set {
	return p.planner.Set(strings.TrimPrefix(node, p.name+"."))
}

func (p *meshPlane) revision() uint64 { return p.planned }

func (p *meshPlane) close() { p.sub.Close() }

// note takes what proxies have confirmed, and whether a control plane changed.
func (p *meshPlane) note(secured map[string]bool, gateways bool) {
	for dataplane, yes := range secured {
		p.secured[dataplane] = yes
		p.planner.Secured(dataplane, yes)
	}
	if gateways {
		p.planner.Outside()
	}
}

func (p *meshPlane) update() map[string]*resource.Set {
	change := p.sub.Take()
	out := p.plan(func() {
		if p.failed != nil {
			p.restart(change.State)
			return
		}
		p.planner.Update(change.State, change.Keys, change.All)
	})
	p.report()
	if p.failed == nil {
		p.planned = max(p.planned, change.State.Revision())
	}
	return out
}

// restart takes a planner from nothing, after one that has failed half-way: what it
// had planned but not told is planned again.
func (p *meshPlane) restart(state *view.Mesh) {
	p.planner = p.fresh(state)
	for dataplane, yes := range p.secured {
		p.planner.Secured(dataplane, yes)
	}
	for dataplane, bare := range p.joined {
		p.planner.Bare(dataplane, bare)
		p.planner.Join(dataplane)
	}
}

// plan tells the planner what there is, has it plan what is stale and returns the
// sets that differ, by node.
func (p *meshPlane) plan(tell func()) (out map[string]*resource.Set) {
	out = map[string]*resource.Set{}
	defer func() {
		if v := recover(); v != nil {
			p.failed = &plan.Failed{Value: v, Stack: debug.Stack()}
			p.log.Error("planning a mesh failed", "mesh", p.name, "error", p.failed.Error())
		}
	}()
	tell()
	for dataplane, set := range p.planner.Plan() {
		out[mesh.NodeID(p.name, dataplane)] = set
	}
	p.failed = nil
	if p.check {
		if err := p.planner.Check(); err != nil {
			p.differs()
			p.log.Error("the plan of a mesh is not what a plan from nothing makes", "mesh", p.name, "error", err)
		}
	}
	return out
}

// report logs failures that the last report did not have, each once however many
// proxies are concerned. What is kept as it was changes no set, so it is looked for
// at all proxies.
func (p *meshPlane) report() {
	now := map[string]bool{}
	for dataplane := range p.joined {
		for _, f := range p.planner.Failures(dataplane) {
			k := f.Cell + " " + f.Err.Error()
			if !now[k] && !p.known[k] {
				p.log.Warn("a resource cannot be configured", "mesh", p.name, "dataplane", dataplane, "resource", f.Cell, "kept_last_good", f.Kept, "error", f.Err)
			}
			now[k] = true
		}
	}
	p.known = now
}

func (p *meshPlane) failures() []Failure {
	var out []Failure
	if p.failed != nil {
		out = append(out, Failure{Mesh: p.name, Failure: plan.Failure{Cell: "plan", Err: p.failed, Kept: true}})
	}
	for dataplane := range p.joined {
		for _, f := range p.planner.Failures(dataplane) {
			out = append(out, Failure{Mesh: p.name, Dataplane: dataplane, Failure: f})
		}
	}
	return out
}

// confirmations collects what proxies have confirmed: for the next round whether
// they take mutual TLS, and the last set of each.
type confirmations struct {
	mu      sync.Mutex
	secured map[string]map[string]bool
	sets    map[string]*resource.Set
}

// note takes a confirmation and reports whether there is news for the next round:
// most confirm another endpoint or route, which changes nothing for others.
func (c *confirmations) note(node, meshName, dataplane string, set *resource.Set, secured bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, known := c.sets[node]
	if c.sets == nil {
		c.sets = map[string]*resource.Set{}
	}
	c.sets[node] = set
	if _, was := before.Generation(mesh.SecretIdentity(meshName)); known && was == secured {
		return false
	}
	if c.secured == nil {
		c.secured = map[string]map[string]bool{}
	}
	if c.secured[meshName] == nil {
		c.secured[meshName] = map[string]bool{}
	}
	c.secured[meshName][dataplane] = secured
	return true
}

func (c *confirmations) last(node string) *resource.Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sets[node]
}

func (c *confirmations) forget(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sets, node)
}

func (c *confirmations) take() map[string]map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.secured
	c.secured = nil
	return out
}

// Confirmed notes that a node holds what a reading shows. It does not block.
func (l *Loop) Confirmed(node string, st snapshot.State) {
	meshName, dataplane, err := ParseProxy(node)
	if err != nil {
		return
	}
	_, secured := st.Set.Generation(mesh.SecretIdentity(meshName))
	if l.confirmed.note(node, meshName, dataplane, st.Set, secured) {
		l.signal()
	}
}
