package publish

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

// Desired returns the set that a node should have by everything that is stored. The node need
// not be connected, and may never have been. For a node that is not connected the set is
// planned from nothing, so a part that cannot be made is left out, where a connected node may
// keep its last good version. NotFound is about a node that may not have configuration,
// Unavailable about a scope that cannot be planned at present.
func (l *Loop) Desired(ctx context.Context, id string) (*resource.Set, error) {
	if strings.HasPrefix(id, "cp/") {
		return l.desiredOfGateway(ctx, id)
	}
	if _, _, ok := mesh.ParseZoneNode(id); ok {
		return l.desiredOfZone(ctx, id)
	}
	meshName, dataplane, err := ParseProxy(id)
	if err != nil {
		return nil, err
	}
	p, err := l.mesh(ctx, meshName)
	if err != nil {
		return nil, err
	}
	defer l.entered(p)
	if err := l.UpToDate(ctx, p.id()); err != nil {
		return nil, err
	}
	for last := false; ; {
		set, err := l.desiredOfProxy(p, dataplane)
		if _, waits := errors.AsType[*awaited](err); !waits || last {
			return set, err
		}
		if last, err = l.read(ctx, p.name); err != nil {
			return nil, err
		}
		l.round(p, time.Now()) // takes what was read
	}
}

// desiredOfProxy returns the set of a connected proxy, or plans one from nothing.
func (l *Loop) desiredOfProxy(p *meshPlane, dataplane string) (*resource.Set, error) {
	p.mu.Lock()
	failed, set, state, secured := p.retry.err, p.joined[dataplane], p.state, maps.Clone(p.secured)
	p.mu.Unlock()
	switch {
	case failed != nil:
		return nil, p.impossible(dataplane, failed)
	case set != nil:
		return set, nil
	}
	known, waits := false, ""
	// The planner is used by this call alone, so the mesh is not locked while it plans.
	err := guard(func() {
		planner := l.sidecars(&apart{l: l, p: p}, state)
		for name, yes := range secured {
			planner.Secured(name, yes)
		}
		if known = planner.Join(dataplane); known {
			set = planner.Plan()[dataplane]
			waits = planner.Awaits(dataplane)
		}
	})
	switch {
	case err != nil:
		return nil, p.impossible(dataplane, err)
	case !known:
		return nil, fault.New(fault.NotFound, "dataplane %s of mesh %s does not exist", dataplane, p.name)
	case set == nil && waits != "":
		return nil, p.impossible(dataplane, &awaited{waits})
	}
	return set, nil
}

// attempt waits until a control plane has planned, or tried to plan, everything that was stored
// before the call. Gateways of other parameters, for which that may have failed, do not matter.
func (l *Loop) attempt(ctx context.Context, p *gatewayPlane) error {
	revision := l.Latest()
	for {
		l.mu.Lock()
		tried, moved := p.announced.tried >= revision, l.moved
		l.mu.Unlock()
		if tried {
			return nil
		}
		if err := p.unread(); err != nil {
			return fault.Wrap(fault.Unavailable, err, "control plane %s cannot be read at present", p.name)
		}
		select {
		case <-moved:
		case <-p.over:
			return p.errDeleted()
		case <-ctx.Done():
			return fault.Wrap(fault.Unavailable, ctx.Err(), "what was written last is not planned yet: ask again").Again(time.Second)
		}
	}
}

// desiredOfGateway does what Desired does, for a gateway.
func (l *Loop) desiredOfGateway(ctx context.Context, id string) (*resource.Set, error) {
	p, err := l.follow(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := l.attempt(ctx, p); err != nil {
		return nil, err
	}
	params, err := l.parameters(ctx, id)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	state, c := p.state, p.variants[params]
	if c != nil && c.retry.err == nil {
		defer p.mu.Unlock()
		return c.result.Set, nil
	}
	p.mu.Unlock()
	var set *resource.Set
	if err := guard(func() { set = p.fresh(params).Plan(state).Set }); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the configuration of control plane %s cannot be made", p.name)
	}
	return set, nil
}

// apart shows control planes to a planner that works while the mesh is not locked. A control
// plane looks the same however often the planner asks for it.
type apart struct {
	l *Loop
	p *meshPlane

	mu   sync.Mutex
	seen map[string]sight
}

// sight is what a planner was told about a control plane.
type sight struct {
	state *view.Gateway
	err   error
}

var _ policy.Outside = (*apart)(nil)

// Gateway implements policy.Outside.
func (a *apart) Gateway(name string) (*view.Gateway, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, known := a.seen[name]
	if !known {
		a.p.mu.Lock()
		s.state, s.err = outside{a.l, a.p}.Gateway(name)
		a.p.mu.Unlock()
		if a.seen == nil {
			a.seen = map[string]sight{}
		}
		a.seen[name] = s
	}
	return s.state, s.err
}
