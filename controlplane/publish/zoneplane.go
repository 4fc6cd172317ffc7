package publish

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/alarm"
	"github.com/meshgate/meshgate/xds/resource"
)

// ZoneScope is the publisher's name of the scope of the proxies of the zone.
const ZoneScope = "zone"

// EgressesScope is the publisher's name of what egresses have of all meshes, and [EgressScope] of what
// they have of one. These scopes have no nodes. They are there only while they show less than
// [ZoneScope] does: while an egress, or all of them in respect of one mesh, keeps what it had, because
// something newer cannot be made. A mesh that could not be read since the start shows nothing, because it
// may be left through egresses: rotations wait for it, and the account of all scopes does not.
const EgressesScope = "egress"

// EgressScope returns the publisher's name of what egresses have of a mesh; see [EgressesScope].
func EgressScope(meshName string) string { return EgressesScope + "/" + meshName }

// ZoneProxy returns the name under which failures of a proxy of the zone are listed.
func ZoneProxy(proxyType, name string) string { return proxyType + "/" + name }

// zonePlane is the zone of the control plane with its connected proxies. A plan that panics
// changes nothing: the proxies keep what they have.
type zonePlane struct {
	turns
	following[*view.Zone]
	state    *view.Zone
	planners zonePlanners
	// fresh makes planners from nothing.
	fresh func() zonePlanners
	retry retry
	// again has an error while making the set of some connected proxy panics. Nothing else is tried
	// again with it, so such a proxy costs the others nothing.
	again retry
	// joined holds the connected proxies by their ids, with the last good set of each, and refused
	// why one of them keeps that.
	joined  map[string]*resource.Set
	refused map[string]error
	// overdue holds, of those who keep one, the oldest revision that it may lack.
	overdue map[string]uint64
	// panics are what panicked in the last plan that was made all the same.
	panics []failure
	log    *slog.Logger
}

// zone returns the plane of the zone, which is followed from now on.
func (l *Loop) zone(ctx context.Context) (*zonePlane, error) {
	if p := l.openedZone(); p != nil {
		return p, nil
	}
	defer l.begin(ZoneScope)()
	scope, err := l.Views.OwnZone(ctx)
	if err != nil {
		return nil, err
	}
	fresh := func() zonePlanners { return newZonePlanners(l.Policies) }
	p := &zonePlane{
		turns: newTurns(), following: following[*view.Zone]{scope: scope}, planners: fresh(), fresh: fresh,
		joined: map[string]*resource.Set{}, refused: map[string]error{}, overdue: map[string]uint64{}, log: l.Log,
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l.mu.Lock()
	first, _ := l.planes[ZoneScope].(*zonePlane)
	if first == nil {
		l.add(p)
	}
	l.mu.Unlock()
	if first != nil {
		scope.Release()
		return first, nil
	}
	p.sub = scope.Subscribe(p.wake)
	p.update(time.Now())
	l.announce(p, nil)
	return p, nil
}

func (l *Loop) openedZone() *zonePlane {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, _ := l.planes[ZoneScope].(*zonePlane)
	return p
}

// connectZone does what [Loop.Connect] does, for a proxy of a zone.
func (l *Loop) connectZone(ctx context.Context, id string) (release func(), err error) {
	p, err := l.zone(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the zone: %w", err)
	}
	if err := l.UpToDate(ctx, p.id()); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	set, err := p.join(id)
	l.problems.set(p.id(), p.failures())
	if err != nil {
		return nil, err
	}
	return l.connected(id, p, batch{id: set}, nil), nil
}

func (p *zonePlane) id() string { return ZoneScope }

func (p *zonePlane) gone() bool { return false }

func (p *zonePlane) due() time.Time { return alarm.Sooner(p.retry.at, p.again.at) }

// join registers a proxy and returns its set. One that keeps its last set gets that with another stream,
// too. What is newer comes with a plan alone, which says since which revision it was due: otherwise a
// proxy would count as one that has confirmed what it never had.
func (p *zonePlane) join(id string) (*resource.Set, error) {
	if p.refused[id] != nil && p.retry.err == nil {
		return p.joined[id], nil
	}
	set, err := p.setOf(id)
	switch {
	case err == nil:
		p.joined[id] = set
	case p.joined[id] != nil && p.retry.err == nil:
		return p.joined[id], nil
	}
	return set, err
}

// setOf returns the set of a proxy in the state that was planned last.
func (p *zonePlane) setOf(id string) (*resource.Set, error) {
	if p.retry.err != nil { // the planners know nothing yet
		return nil, fault.Wrap(fault.Unavailable, p.retry.err, "the zone cannot be planned at present")
	}
	set, err := p.planners.set(p.state, id)
	if failed := panicOf(err); failed != nil {
		p.log.Error("planning a proxy of the zone failed", "node", id, "error", failed.Error())
	}
	return set, err
}

func (p *zonePlane) leave(node string, _ time.Time) {
	delete(p.joined, node)
	delete(p.overdue, node)
	if p.refused[node] != nil {
		delete(p.refused, node)
		p.signal() // nothing may be behind any more
	}
}

func (p *zonePlane) update(now time.Time) batch {
	change := p.sub.Take()
	p.state = change.State
	touched := change.All || len(change.Keys) > 0
	if touched {
		p.retry.changed()
		p.again.changed()
	}
	out := batch{}
	waits := p.retry.waits(now)
	p.attempted(change.State.Revision(), touched, waits)
	all := touched || p.retry.err != nil
	if !waits && (all || p.again.err != nil && !p.again.waits(now)) {
		out = p.attempt(all, now)
	}
	if p.retry.err == nil {
		p.lack(p.behind())
		p.revision = max(p.revision, change.State.Revision())
	}
	return out
}

// behind lists the scopes of what egresses keep although something else is due.
func (p *zonePlane) behind() (scopes []string) {
	for id := range p.refused {
		if proxyType, _, _ := mesh.ParseZoneNode(id); proxyType == mesh.ProxyEgress {
			scopes = []string{EgressesScope}
		}
	}
	for _, planner := range p.planners {
		for _, name := range planner.Behind() {
			scopes = append(scopes, EgressScope(name))
		}
	}
	return scopes
}

func (p *zonePlane) failures() listed {
	out := listed{}
	if p.retry.err != nil {
		out[""] = []Failure{{Failure: failure{Cell: cellPlan, Err: p.retry.err, Kept: true}}}
	}
	for id := range p.joined {
		proxyType, name, _ := mesh.ParseZoneNode(id)
		of := ZoneProxy(proxyType, name)
		for _, f := range p.planners[proxyType].Failures() {
			out[of] = append(out[of], Failure{Dataplane: of, Failure: f})
		}
	}
	for id, err := range p.refused {
		proxyType, name, _ := mesh.ParseZoneNode(id)
		of := ZoneProxy(proxyType, name)
		out[of] = append(out[of], Failure{Dataplane: of, Failure: refusal(err)})
	}
	return out
}

// desiredOfZone does what [Loop.Desired] does, for a proxy of a zone.
func (l *Loop) desiredOfZone(ctx context.Context, id string) (*resource.Set, error) {
	p, err := l.zone(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.UpToDate(ctx, p.id()); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if set := p.joined[id]; set != nil {
		return set, nil
	}
	return p.setOf(id)
}

// goneFromZone reports whether a node is a proxy of the zone whose resource was deleted.
func (p *zonePlane) goneFromZone(id string) bool {
	proxyType, name, ok := mesh.ParseZoneNode(id)
	return ok && p.state.Proxy(proxyType, name) == nil
}
