package publish

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
)

// outside shows control planes to the policies of a mesh. Within a round, a control plane
// looks the same however often it is asked for. Callers hold the lock of the plane.
type outside struct {
	l *Loop
	p *meshPlane
}

// look is what a mesh sees of a control plane.
type look struct {
	scope *view.Scope[*view.Gateway]
	sub   *view.Subscription[*view.Gateway]
	// state is the newest state taken. err is the reason if there is no state.
	state *view.Gateway
	err   error
}

// Gateway implements policy.Outside. It starts to follow a control plane that is not
// followed yet.
func (o outside) Gateway(name string) (*view.Gateway, error) {
	k := o.p.looks[name]
	if k == nil {
		k = &look{}
		o.p.looks[name] = k
		o.l.seek(o.p.name, name)
		k.renew(o.l, o.p, name)
	}
	return k.state, k.err
}

// renew takes the news of a control plane. It reports whether there are any, and the oldest
// revision that they may contain.
func (k *look) renew(l *Loop, p *meshPlane, name string) (moved bool, from uint64) {
	if k.sub == nil {
		before := k.err
		if k.scope, k.err = l.seen(name); k.scope == nil {
			// When the control plane becomes unreadable, this change is newer than all
			// revisions shown.
			return !errors.Is(k.err, before), l.Latest() + 1
		}
		k.sub = k.scope.Subscribe(p.wake)
		k.state = k.sub.Take().State
		return true, 1 // nothing was known before
	}
	before := k.state.Revision()
	change := k.sub.Take()
	k.state = change.State
	return change.All || len(change.Keys) > 0, before + 1
}

// bound returns the oldest revision among the control planes that a mesh looks at. While
// one of them is read for the first time, the mesh shows nothing new, because the check
// that needs it is not in force yet. Control planes that cannot be read are left out.
func (p *meshPlane) bound() uint64 {
	bound := p.seen()
	for _, k := range p.looks {
		if k.sub == nil && errors.Is(k.err, policy.ErrReading) {
			bound = min(bound, p.revision)
		}
	}
	return bound
}

// seen does what bound does, but ignores control planes that are being read for the first
// time.
func (p *meshPlane) seen() uint64 {
	bound := noRevision
	for _, k := range p.looks {
		if k.sub != nil && k.scope.Err() == nil {
			bound = min(bound, k.state.Revision())
		}
	}
	return bound
}

// taken notes which revisions of the control planes the published sets of a mesh were made
// of, and reports whether one of them is new. While the mesh cannot be planned, its sets
// are older than the control planes it sees, and nothing is noted. The caller holds both
// locks.
func (l *Loop) taken(p plane) (news bool) {
	m, ok := p.(*meshPlane)
	if !ok || m.retry.err != nil {
		return false
	}
	for name, k := range m.looks {
		if k.sub != nil && l.looksAt[m.name][name] < k.state.Revision() {
			l.looksAt[m.name][name], news = k.state.Revision(), true
		}
	}
	return news
}

// blind reports whether a mesh looks at one of the named scopes but has not taken the given
// revision of it. The mesh may show a newer revision all the same, because a view that
// fails does not bound it. The caller holds mu.
func (l *Loop) blind(p plane, revision uint64, scopes []string) bool {
	m, ok := p.(*meshPlane)
	if !ok {
		return false
	}
	for name, taken := range l.looksAt[m.name] {
		if scope := ControlPlaneScope(name); taken < revision && l.planes[scope] != nil && slices.Contains(scopes, scope) {
			return true
		}
	}
	return false
}

// seek notes that a mesh looks at a control plane, and has that control plane opened.
func (l *Loop) seek(meshName, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.looksAt[meshName] == nil {
		l.looksAt[meshName] = map[string]uint64{}
	}
	l.looksAt[meshName][name] = 0
	if l.planes[ControlPlaneScope(name)] != nil {
		return
	}
	if _, begun := l.unread[name]; !begun {
		l.unread[name] = policy.ErrReading
		l.unopened = append(l.unopened, name)
		select {
		case l.opener <- struct{}{}:
		default:
		}
	}
}

// seen returns the view of a control plane that a mesh looks at, or the reason why there is
// none.
func (l *Loop) seen(name string) (*view.Scope[*view.Gateway], error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p, ok := l.planes[ControlPlaneScope(name)].(*gatewayPlane); ok {
		return p.scope, nil
	}
	return nil, l.unread[name]
}

// tellLookers wakes the meshes that look at a control plane. The caller holds mu.
func (l *Loop) tellLookers(name string) {
	for meshName, looks := range l.looksAt {
		if _, looks := looks[name]; looks {
			if p := l.opened(meshName); p != nil {
				p.signal()
			}
		}
	}
}

// awaited is the error for a proxy that waits for a control plane its policies look at.
type awaited struct{ what string }

// Error implements error.
func (a *awaited) Error() string { return a.what }

// openAll follows the control planes that policies ask for until ctx ends.
func (l *Loop) openAll(ctx context.Context, start func(func())) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.opener:
		}
		l.mu.Lock()
		names := l.unopened
		l.unopened = nil
		l.mu.Unlock()
		for _, name := range names {
			start(func() { l.open(ctx, name) })
		}
	}
}

// open follows a control plane. While it cannot be read, the meshes that look at it are
// told so, and everything else continues.
func (l *Loop) open(ctx context.Context, name string) {
	defer l.comes(name)()
	_, err := l.controlPlane(ctx, name, l.Views.ControlPlane)
	if err != nil && ctx.Err() == nil {
		l.unreadable(name, err)
		_, err = l.controlPlane(ctx, name, l.Views.AwaitControlPlane)
	}
	if err != nil && ctx.Err() == nil {
		l.Log.Error("a control plane cannot be followed", "control_plane", name, "error", err.Error())
	}
}

// unreadable notes that a control plane cannot be read, and plans the meshes that look at
// it again.
func (l *Loop) unreadable(name string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, unread := l.unread[name]; !unread {
		return // another goroutine could read it
	}
	l.unread[name] = err
	l.tellLookers(name)
	l.problems.set(ControlPlaneScope(name), listed{"": {{ControlPlane: name, Failure: failure{Cell: "view", Err: err, Kept: true}}}})
	l.turn()
}

// enterMesh calls joinMesh and waits for what the proxy needs: the first view of a control
// plane that its policies look at. It fails with Unavailable if that control plane cannot
// be read.
func (l *Loop) enterMesh(ctx context.Context, id, dataplane string, p *meshPlane, bare bool) (release func(), err error) {
	for last := false; ; {
		release, err = l.joinMesh(id, dataplane, p, bare)
		if _, waits := errors.AsType[*awaited](err); !waits || last {
			return release, err
		}
		if last, err = l.read(ctx, p.name); err != nil {
			return nil, err
		}
		l.round(p, time.Now()) // takes what was read
	}
}

// read waits until none of the control planes that a mesh looks at is being read. It
// reports whether it did not have to wait.
func (l *Loop) read(ctx context.Context, meshName string) (none bool, err error) {
	for none = true; ; none = false {
		l.mu.Lock()
		reading, moved := false, l.moved
		for name := range l.looksAt[meshName] {
			reading = reading || errors.Is(l.unread[name], policy.ErrReading)
		}
		l.mu.Unlock()
		if !reading {
			return none, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}
