package publish

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
)

// outside shows the policies of a mesh the control planes as meshes see them. Within a
// round each looks the same however often it is asked for. The lock of the plane is held
// whenever it is asked.
type outside struct {
	l *Loop
	p *meshPlane
}

// look is what a mesh sees of a control plane.
type look struct {
	scope *view.Scope[*view.Gateway]
	sub   *view.Subscription[*view.Gateway]
	// state is the newest one taken; err says why there is none.
	state *view.Gateway
	err   error
}

// Gateway implements policy.Outside. A control plane that nobody has followed yet is
// followed from now on.
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

// renew takes what is new of a control plane. It reports whether something is, and the
// oldest revision that the news may hold.
func (k *look) renew(l *Loop, p *meshPlane, name string) (moved bool, from uint64) {
	if k.sub == nil {
		before := k.err
		if k.scope, k.err = l.seen(name); k.scope == nil {
			// What changes when it cannot be read any more is younger than all that is shown.
			return !errors.Is(k.err, before), l.Latest() + 1
		}
		k.sub = k.scope.Subscribe(p.wake)
		k.state = k.sub.Take().State
		return true, 1 // nothing was known of it
	}
	before := k.state.Revision()
	change := k.sub.Take()
	k.state = change.State
	return change.All || len(change.Keys) > 0, before + 1
}

// bound is the oldest revision of the control planes that a mesh looks at. While one is
// read for the first time, the mesh shows nothing new: what demands a check of it is not in
// force yet. One that cannot be read bounds nobody.
func (p *meshPlane) bound() uint64 {
	bound := p.seen()
	for _, k := range p.looks {
		if k.sub == nil && errors.Is(k.err, policy.ErrReading) {
			bound = min(bound, p.revision)
		}
	}
	return bound
}

// seen is bound by what was read.
func (p *meshPlane) seen() uint64 {
	bound := noRevision
	for _, k := range p.looks {
		if k.sub != nil && k.scope.Err() == nil {
			bound = min(bound, k.state.Revision())
		}
	}
	return bound
}

// taken notes of which revisions of the control planes that a mesh looks at its sets are
// made, which are published, and reports whether that is news. While the mesh cannot be
// planned, its sets are older than what it looks at. The caller holds both locks.
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

// blind reports whether a mesh has not taken a revision of one of the named scopes that
// it looks at: it may show a newer one, because a view that fails bounds nobody, but not
// what was written there. The caller holds mu.
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

// seek notes that a mesh looks at a control plane, which is followed from now on.
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

// seen returns the view of a control plane that somebody seeks, or why there is none.
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

// awaited is the error of a proxy that waits for what its policies look at.
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

// open follows a control plane. As long as it cannot be read, those who look at it
// are told so and everything else goes on.
func (l *Loop) open(ctx context.Context, name string) {
	_, err := l.controlPlane(ctx, name, l.Views.ControlPlane)
	if err != nil && ctx.Err() == nil {
		l.unreadable(name, err)
		_, err = l.controlPlane(ctx, name, l.Views.AwaitControlPlane)
	}
	if err != nil && ctx.Err() == nil {
		l.Log.Error("a control plane cannot be followed", "control_plane", name, "error", err.Error())
	}
}

// unreadable notes that a control plane cannot be read, and has the meshes planned
// that look at it.
func (l *Loop) unreadable(name string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, unread := l.unread[name]; !unread {
		return // somebody else could
	}
	l.unread[name] = err
	l.tellLookers(name)
	l.problems.set(ControlPlaneScope(name), listed{"": {{ControlPlane: name, Failure: failure{Cell: "view", Err: err, Kept: true}}}})
	l.turn()
}

// enterMesh is joinMesh that waits for what a proxy has to wait for: the first view of
// a control plane that its policies look at. It is Unavailable if that cannot be read.
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

// read waits until no control plane that a mesh looks at is being read. It reports
// whether none was.
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
