package publish

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/alarm"
	"github.com/meshgate/meshgate/xds/resource"
)

// meshPlane is a mesh with its connected proxies. A plan that panics changes nothing: the
// proxies keep what they have. After a pause a new planner starts from nothing.
type meshPlane struct {
	turns
	following[*view.Mesh]
	name  string
	state *view.Mesh
	// planner is nil before the first plan. It must not be used while retry has an error.
	planner sidecarPlanner
	retry   retry
	// untold has an error while the planner could not list the failures of some proxy.
	untold retry
	// joined holds the connected proxies by the names of their dataplanes, with the last
	// good set of each.
	joined map[string]*resource.Set
	// says holds what the streams of proxies say about the filter. It includes proxies that
	// are about to join.
	says map[string]says
	// blocked holds dataplanes that cannot be planned. They are not tried again before
	// something changes or their pause is over.
	blocked map[string]*retry
	// looks holds the control planes that its policies have asked for, by name.
	looks map[string]*look
	// entering counts proxies that are about to join. The loop's lock guards it.
	entering int
	// news returns which proxies have confirmed that they accept mutual TLS, or no longer
	// accept it. refresh takes the news of a control plane in looks.
	news    func() map[string]bool
	refresh func(name string, k *look) (moved bool, from uint64)
	// forget drops what is remembered of a proxy. remembered lists the proxies that are
	// away.
	forget     func(dataplane string)
	remembered func() []string
	// fresh makes a planner from nothing. secured is what such a planner has to be told.
	fresh   func(*view.Mesh) sidecarPlanner
	secured map[string]bool
	// noted, moved and from are what the next plan has to be told: which proxies accept
	// mutual TLS, whether control planes have changed, and since which revision.
	noted map[string]bool
	moved bool
	from  uint64
	// known holds the failures of the last report, and listed its list.
	known  map[string]bool
	listed listed
	check  bool
	// shown is called with each new state.
	shown func(*view.Mesh)
	// differs is called when a batch differs from a plan made from nothing.
	differs func()
	log     *slog.Logger
}

// mesh returns a mesh that is followed from now on, and counts the caller as about to join.
// The caller has to call entered.
func (l *Loop) mesh(ctx context.Context, name string) (*meshPlane, error) {
	if p := l.enter(name); p != nil {
		return p, nil
	}
	defer l.begin(MeshScope(name))()
	scope, err := l.Views.Mesh(ctx, name)
	if err != nil {
		return nil, err
	}
	var secured map[string]string
	if l.Issued != nil {
		if secured, err = l.Issued(ctx, name); err != nil {
			scope.Release()
			return nil, fmt.Errorf("certificates of mesh %s: %w", name, err)
		}
	}
	p := l.newMesh(name, scope, secured)
	p.mu.Lock()
	defer p.mu.Unlock()
	if first := l.enterMeshPlane(p); first != p {
		scope.Release()
		return first, nil
	}
	p.open(time.Now())
	l.announce(p, nil)
	return p, nil
}

// enterMeshPlane makes the loop follow a mesh. If another goroutine was first, it returns
// the plane of that goroutine. It counts the caller as about to join the plane that it
// returns.
func (l *Loop) enterMeshPlane(p *meshPlane) *meshPlane {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.opened(p.name)
	if first == nil {
		l.add(p)
		first = p
	}
	first.entering++
	return first
}

// opened returns a mesh that is followed, else nil. The caller holds mu.
func (l *Loop) opened(name string) *meshPlane {
	p, _ := l.planes[MeshScope(name)].(*meshPlane)
	return p
}

// enter counts the caller as about to join a mesh. It returns nil if the mesh is not
// followed yet.
func (l *Loop) enter(name string) *meshPlane {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.opened(name)
	if p != nil {
		p.entering++
	}
	return p
}

// entered ends what mesh has begun.
func (l *Loop) entered(p *meshPlane) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.mu.Lock()
	p.entering--
	l.mu.Unlock()
	l.reap(p)
}

func (l *Loop) newMesh(name string, scope *view.Scope[*view.Mesh], secured map[string]string) *meshPlane {
	p := &meshPlane{
		turns: newTurns(), following: following[*view.Mesh]{scope: scope}, name: name, joined: map[string]*resource.Set{}, says: map[string]says{}, blocked: map[string]*retry{},
		looks: map[string]*look{}, secured: map[string]bool{}, from: noRevision, known: map[string]bool{}, listed: listed{}, check: l.Check,
		shown: l.Shown, differs: func() { l.differences.Add(1) }, log: l.Log,
	}
	if p.shown == nil {
		p.shown = func(*view.Mesh) {}
	}
	p.fresh = func(state *view.Mesh) sidecarPlanner { return l.sidecars(outside{l, p}, state) }
	p.news = func() map[string]bool { return l.confirmed.take(name) }
	p.forget = func(dataplane string) { l.bury(mesh.NodeID(name, dataplane)) }
	p.remembered = func() []string { return l.remembered(name) }
	p.refresh = func(name string, k *look) (bool, uint64) { return k.renew(l, p, name) }
	for dataplane := range secured {
		p.secured[dataplane] = true
	}
	return p
}

// open makes the first plan.
func (p *meshPlane) open(now time.Time) {
	p.sub = p.scope.Subscribe(p.wake)
	p.state = p.sub.Take().State
	p.shown(p.state)
	p.tried = p.state.Revision()
	if p.plan(now, nil); p.retry.err == nil {
		p.reached = p.state.Revision()
		p.advance(p.seen()) // no proxy is connected yet, so what is still being read can change nothing for one
	} else {
		p.signal()
	}
}

// stuck returns the reason why a mesh does not show its newest state. It returns nil if the
// mesh is up to date or is about to be. It does not wait for a plan in progress.
func (l *Loop) stuck(p *meshPlane) error {
	for _, f := range l.problems.of(p.id(), "") {
		return f.Err
	}
	return p.scope.Err()
}

// noRevision stands for no revision where the oldest of several is computed.
const noRevision = ^uint64(0)

// join registers a proxy and returns the sets that are new because of it, even if it fails.
// A proxy that the planner cannot take makes the mesh start a new planner; other proxies
// are not affected. bare says that the proxy has no filter.
func (p *meshPlane) join(dataplane string, bare bool, now time.Time) (_ batch, err error) {
	if p.retry.err != nil {
		return nil, fault.Wrap(fault.Unavailable, p.retry.err, "mesh %s cannot be planned at present", p.name)
	}
	if b := p.blocked[dataplane]; b != nil && b.waits(now) {
		return nil, p.impossible(dataplane, b.err)
	}
	_, again := p.joined[dataplane]
	p.say(dataplane, bare, 1)
	defer func() {
		if err != nil {
			p.say(dataplane, bare, -1)
		}
	}()
	known := false
	out := p.plan(now, func(s sidecarPlanner) { known = p.enlist(s, dataplane) })
	if err := p.retry.err; err != nil && !again {
		p.retry = retry{}
		out = p.plan(now, nil)
		p.block(dataplane, err, now)
		return out, p.impossible(dataplane, err)
	} else if err != nil {
		return nil, p.impossible(dataplane, err)
	}
	if !known {
		return out, fault.New(fault.NotFound, "dataplane %s of mesh %s does not exist; create it first", dataplane, p.name)
	}
	delete(p.blocked, dataplane)
	set := out[mesh.NodeID(p.name, dataplane)]
	if set == nil && again {
		set = p.joined[dataplane]
	}
	if set == nil {
		err := p.impossible(dataplane, p.awaits(dataplane))
		p.leave(mesh.NodeID(p.name, dataplane), now)
		return out, err
	}
	p.joined[dataplane] = set
	out[mesh.NodeID(p.name, dataplane)] = set
	return out, nil
}

// awaits returns an error that says what a proxy waits for, or nil.
func (p *meshPlane) awaits(dataplane string) error {
	var what string
	if err := guard(func() { what = p.planner.Awaits(dataplane) }); err != nil || what == "" {
		return err
	}
	return &awaited{what}
}

// enlist tells a planner about a connected proxy and whether it has a set. It reports
// whether its dataplane exists.
func (p *meshPlane) enlist(s sidecarPlanner, dataplane string) bool {
	s.Bare(dataplane, p.says[dataplane].bareAll())
	if s.Join(dataplane) {
		if p.joined[dataplane] != nil {
			s.Begun(dataplane)
		}
		return true
	}
	s.Bare(dataplane, false)
	return false
}

func (p *meshPlane) impossible(dataplane string, cause error) error {
	return fault.Wrap(fault.Unavailable, cause, "the configuration of dataplane %s of mesh %s cannot be made", dataplane, p.name)
}

// block notes that a dataplane cannot be planned.
func (p *meshPlane) block(dataplane string, err error, now time.Time) {
	b := p.blocked[dataplane]
	if b == nil {
		b = &retry{}
		p.blocked[dataplane] = b
	}
	b.failed(err, now)
	p.relist(now)
}

func (p *meshPlane) leave(node string, now time.Time) {
	dataplane := strings.TrimPrefix(node, p.name+".")
	delete(p.joined, dataplane)
	delete(p.says, dataplane)
	gone := p.isGone(dataplane)
	if gone {
		delete(p.secured, dataplane)
		delete(p.noted, dataplane)
	}
	if p.retry.err != nil {
		return
	}
	if err := guard(func() {
		p.planner.Leave(dataplane)
		if gone {
			p.planner.Secured(dataplane, false)
		}
	}); err != nil {
		p.failed(err, now)
	}
}

func (p *meshPlane) id() string { return MeshScope(p.name) }

func (p *meshPlane) due() time.Time { return alarm.Sooner(p.retry.at, p.untold.at) }

func (p *meshPlane) gone() bool {
	return p.state.Spec() == nil && len(p.joined) == 0 && p.entering == 0
}

func (p *meshPlane) close() {
	for _, k := range p.looks {
		if k.sub != nil {
			k.sub.Close()
		}
	}
	p.following.close()
}

// take takes what proxies have confirmed, and the news of the control planes that the mesh
// looks at.
func (p *meshPlane) take() {
	secured := p.news()
	maps.DeleteFunc(secured, func(dataplane string, _ bool) bool { // confirmations of proxies that have left and were deleted count no more
		_, joined := p.joined[dataplane]
		return !joined && p.isGone(dataplane)
	})
	maps.Copy(p.secured, secured)
	if p.noted == nil {
		p.noted = map[string]bool{}
	}
	maps.Copy(p.noted, secured)
	for name, k := range p.looks {
		if moved, from := p.refresh(name, k); moved {
			p.moved, p.from = true, min(p.from, from)
		}
	}
}

func (p *meshPlane) update(now time.Time) batch {
	change := p.sub.Take()
	p.state = change.State
	p.shown(p.state)
	p.take()
	p.bury(change)
	touched := change.All || len(change.Keys) > 0 || p.moved || len(p.noted) > 0
	if touched {
		p.retry.changed()
		clear(p.blocked)
	}
	var out batch
	waits := p.retry.waits(now)
	p.attempted(p.state.Revision(), touched, waits)
	if !waits {
		out = p.plan(now, func(s sidecarPlanner) {
			for dataplane, yes := range p.noted {
				s.Secured(dataplane, yes)
			}
			if p.moved {
				s.Outside()
			}
			s.Update(change.State, change.Keys, change.All)
			p.rejoin(s, change)
		})
	}
	p.lacks = 0
	if p.retry.err != nil {
		if p.moved && p.from <= p.revision {
			p.lacks = p.from
		}
	} else {
		p.reached = p.state.Revision()
		if p.moved {
			p.since = p.from
		}
		p.noted, p.moved, p.from = nil, false, noRevision
	}
	p.advance(p.bound())
	p.relist(now)
	return out
}

// rejoin tells a planner about connected proxies whose dataplane exists again. A planner
// that started from nothing in the meantime does not know them.
func (p *meshPlane) rejoin(s sidecarPlanner, change view.Change[*view.Mesh]) {
	if change.All {
		for dataplane := range p.joined {
			p.enlist(s, dataplane)
		}
	}
	for _, key := range change.Keys {
		if _, joined := p.joined[key.Name]; joined && key.Kind == mesh.Dataplanes.Name {
			p.enlist(s, key.Name)
		}
	}
}

// advance moves the revision that the mesh shows forward, at most to bound. bound is the
// oldest revision of the control planes that the mesh looks at: the mesh may not have seen
// newer changes of them.
func (p *meshPlane) advance(bound uint64) { p.revision = max(p.revision, min(p.reached, bound)) }

// plan tells the planner the news, lets it plan what is out of date, and returns the sets
// that differ, by node. The first plan, and the first plan after a failure, uses a new
// planner that starts from nothing.
func (p *meshPlane) plan(now time.Time, tell func(sidecarPlanner)) (out batch) {
	out = batch{}
	err := guard(func() {
		planner := p.planner
		if planner == nil || p.retry.err != nil || tell == nil {
			planner = p.restart()
		} else {
			tell(planner)
		}
		sets := planner.Plan()
		p.planner = planner
		for dataplane, set := range sets {
			if _, joined := p.joined[dataplane]; joined {
				p.joined[dataplane] = set
			}
			out[mesh.NodeID(p.name, dataplane)] = set
		}
	})
	if err != nil {
		p.failed(err, now)
		return nil
	}
	p.retry = retry{}
	if p.check {
		p.hold()
	}
	return out
}

func (p *meshPlane) failed(err error, now time.Time) {
	p.retry.failed(err, now)
	p.log.Error("planning a mesh failed", "mesh", p.name, "error", err.Error(), "again_in", p.retry.pause.String())
}

// restart returns a planner that starts from nothing and is told about all proxies.
func (p *meshPlane) restart() sidecarPlanner {
	planner := p.fresh(p.state)
	for dataplane, yes := range p.secured {
		planner.Secured(dataplane, yes)
	}
	for dataplane := range p.joined {
		p.enlist(planner, dataplane)
	}
	return planner
}

// hold compares the plan with a plan made from nothing.
func (p *meshPlane) hold() {
	var err error
	if failed := guard(func() { err = p.planner.Check() }); failed != nil {
		err = failed
	}
	if err != nil {
		p.differs()
		p.log.Error("the plan of a mesh is not what a plan from nothing makes", "mesh", p.name, "error", err)
	}
}

// relist lists what is not published as configured. It logs failures that the last list did
// not have, each once, however many proxies have it. It has to ask for all proxies, because
// a part that keeps its last good version changes no set.
func (p *meshPlane) relist(now time.Time) {
	p.listed = listed{}
	var untold error
	if p.retry.err != nil {
		p.listed[""] = []Failure{{Mesh: p.name, Failure: failure{Cell: cellPlan, Err: p.retry.err, Kept: true}}}
	} else {
		known := p.known
		p.known = map[string]bool{}
		for dataplane := range p.joined {
			if err := p.list(dataplane, known); err != nil {
				untold = err
			}
		}
	}
	p.tell(untold, now)
	for dataplane, b := range p.blocked {
		p.listed[dataplane] = append(p.listed[dataplane], Failure{Mesh: p.name, Dataplane: dataplane, Failure: failure{Cell: cellPlan, Err: b.err}})
	}
}

// tell notes whether the planner could list the failures of all proxies. If not, the
// planner is asked again after a pause, because no other change may ever trigger a round.
func (p *meshPlane) tell(err error, now time.Time) {
	if err == nil {
		p.untold = retry{}
		return
	}
	p.untold.failed(err, now)
}

// list lists the failures of one proxy, and logs those that are not in known. If the
// planner panics, list returns the error and lists it as the failure.
func (p *meshPlane) list(dataplane string, known map[string]bool) error {
	var failures, unserved []failure
	err := guard(func() { failures, unserved = p.planner.Failures(dataplane), p.planner.Unserved(dataplane) })
	if err != nil {
		failures, unserved = []failure{{Cell: cellPlan, Err: err, Kept: true}}, nil
	}
	var fs []Failure
	for _, f := range failures {
		fs = append(fs, Failure{Mesh: p.name, Dataplane: dataplane, Failure: f})
		k := f.Cell + " " + f.Err.Error()
		if !p.known[k] && !known[k] {
			p.log.Warn("a resource cannot be configured", "mesh", p.name, "dataplane", dataplane, "resource", f.Cell, "kept_last_good", f.Kept, "error", f.Err)
		}
		p.known[k] = true
	}
	for _, f := range unserved {
		fs = append(fs, Failure{Mesh: p.name, Dataplane: dataplane, Failure: f})
	}
	if len(fs) > 0 {
		p.listed[dataplane] = fs
	} else {
		delete(p.listed, dataplane)
	}
	return err
}

func (p *meshPlane) failures() listed {
	if err := p.scope.Err(); err != nil {
		fs := maps.Clone(p.listed)
		if fs == nil {
			fs = listed{}
		}
		fs[""] = append([]Failure{{Mesh: p.name, Failure: failure{Cell: "view", Err: err, Kept: true}}}, fs[""]...)
		return fs
	}
	return p.listed
}
