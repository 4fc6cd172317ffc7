package loop

import (
	"context"
	"errors"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
)

// outside shows the policies of a mesh the control planes as meshes see them, and
// remembers who looks at whom. The loop's lock is held whenever it is asked.
type outside struct {
	l    *Loop
	mesh string
}

// Gateway implements policy.Outside. A control plane that nobody has followed yet is
// followed from now on.
func (o outside) Gateway(name string) (*view.Gateway, error) {
	seen := o.l.looksAt[o.mesh]
	if seen == nil {
		seen = map[string]bool{}
		o.l.looksAt[o.mesh] = seen
	}
	seen[name] = true
	if p, ok := o.l.planes[ControlPlaneScope(name)].(*controlPlane); ok {
		return p.state, nil
	}
	err, begun := o.l.unread[name]
	if !begun {
		o.l.unread[name] = policy.ErrReading
		o.l.unopened = append(o.l.unopened, name)
		select {
		case o.l.opener <- struct{}{}:
		default:
		}
		return nil, policy.ErrReading
	}
	return nil, err
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
	l.shifted = true
	l.problems.set(ControlPlaneScope(name), []Failure{{ControlPlane: name, Failure: failure{Cell: "view", Err: err, Kept: true}}})
	l.turn()
	l.signal()
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
