package publish

import (
	"context"
	"fmt"
	"slices"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// announce publishes what a plane shows now. The caller holds the lock of the plane. This
// keeps the publications of a scope in order.
func (l *Loop) announce(p plane, sets batch) {
	c := p.common()
	now := announced{true, c.revision, c.lacks, c.reached}
	connected := l.noteSets(sets)
	l.mu.Lock()
	moves := now != c.announced
	l.mu.Unlock()
	if moves || len(connected) > 0 {
		l.Publisher.Announce(snapshot.Publication{Scope: p.id(), Sets: connected, Revision: c.revision, Since: c.since, Lacks: c.lacks})
	}
	c.since = 0
	l.mu.Lock()
	defer l.mu.Unlock()
	c.announced = now
	if l.taken(p) || moves {
		l.turn()
	}
}

// noteSets remembers the sets of connected nodes and returns them. It drops the sets of
// other nodes.
func (l *Loop) noteSets(sets batch) (connected batch) {
	connected = batch{}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, set := range sets {
		if n := l.nodes[id]; n != nil {
			n.set, connected[id] = set, set
		}
	}
	return connected
}

// turn wakes the goroutines that wait for a plane. The caller holds mu.
func (l *Loop) turn() {
	close(l.moved)
	l.moved = make(chan struct{})
}

// Concerned lists the scopes that a write concerns: the scopes that it belongs to, and the
// meshes that look at one of them. It waits if the revision does not exist yet. The changes
// of an old revision may be forgotten; Concerned then lists all scopes. Scopes that nobody
// follows are left out: they have no connected proxies. The error comes from ctx or from
// the store.
func (l *Loop) Concerned(ctx context.Context, revision uint64) ([]string, error) {
	if err := l.Views.Exists(ctx, revision); err != nil {
		return nil, err
	}
	keys, known, err := l.Views.Commit(ctx, revision)
	if err != nil {
		return nil, err
	}
	members := map[string]*view.Membership{}
	for {
		// What is not followed is read while nothing is locked.
		if err := l.memberships(ctx, members, l.opens()); err != nil {
			return nil, err
		}
		if out, all := l.concerned(keys, known, members); all {
			return out, nil
		}
	}
}

// concerned lists the scopes that changes concern, all if these are not known; all says
// that it is known what those consist of that are being opened.
func (l *Loop) concerned(keys []model.Key, known bool, members map[string]*view.Membership) (out []string, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out = []string{}
	for name, p := range l.planes {
		if !known || l.touches(p, keys) {
			out = append(out, name)
		}
	}
	for name := range l.opening {
		m, read := members[name]
		if !read {
			return nil, false
		}
		if l.planes[name] == nil && (!known || l.touchesScope(name, m, keys)) {
			out = append(out, name)
		}
	}
	return out, true
}

// Concerns returns a function that reports whether a write concerns a scope. Unlike
// [Loop.Concerned], it includes scopes without connected proxies, because a proxy that is
// away may belong to one of them. Only one goroutine at a time may call the function.
func (l *Loop) Concerns(ctx context.Context, revision uint64) (func(scope string) bool, error) {
	open, err := l.Concerned(ctx, revision)
	if err != nil {
		return nil, err
	}
	keys, known, err := l.Views.Commit(ctx, revision)
	if err != nil {
		return nil, err
	}
	members := map[string]*view.Membership{}
	return func(scope string) bool {
		if !known || slices.Contains(open, scope) {
			return true
		}
		// What cannot be read may well be concerned.
		err := l.memberships(ctx, members, []string{scope})
		return err != nil || l.touchesScope(scope, members[scope], keys)
	}, nil
}

// touches reports whether one of the changes belongs to a plane or to a control plane that
// the plane looks at. The caller holds mu.
func (l *Loop) touches(p plane, keys []model.Key) bool {
	for _, key := range keys {
		if l.owns(p, key) {
			return true
		}
		m, ok := p.(*meshPlane)
		if !ok {
			continue
		}
		for name := range l.looksAt[m.name] {
			if g := l.planes[ControlPlaneScope(name)]; g != nil && l.owns(g, key) {
				return true
			}
		}
	}
	return false
}

// owns reports whether a change belongs to a plane, or to a member of it. Changes that the
// plane does not show, such as changes of secrets, belong to it as well: a client that waits
// for the last of several writes must also wait for the writes before it.
func (l *Loop) owns(p plane, key model.Key) bool {
	scope, known := l.scopeOf(key)
	if p.concerns(key) || known && scope == p.id() {
		return true
	}
	g, ok := p.(*gatewayPlane)
	return ok && l.ofPlane(key) && g.scope.Has(key.Scope)
}

// scopeOf returns the scope that a change belongs to, if its kind is known.
func (l *Loop) scopeOf(key model.Key) (scope string, known bool) {
	scoping, known := l.scopings[key.Kind]
	switch {
	case !known:
		return "", false
	case scoping == model.Mesh:
		return MeshScope(key.Scope), true
	case scoping == model.ControlPlane:
		return ControlPlaneScope(key.Scope), true
	case key.Kind == model.MeshKind:
		return MeshScope(key.Name), true
	}
	return "", true
}

// touchesScope does what touches does, for a scope that cannot be read yet. m is what the
// scope consists of, nil for a mesh.
func (l *Loop) touchesScope(scope string, m *view.Membership, keys []model.Key) bool {
	for _, key := range keys {
		if m != nil && (l.ofPlane(key) && m.Has(key.Scope) || m.Shapes(key)) {
			return true
		}
		if of, known := l.scopeOf(key); known && of == scope {
			return true
		} else if !known && (scope == MeshScope(key.Scope) || scope == ControlPlaneScope(key.Scope) || scope == MeshScope(key.Name)) {
			return true
		}
	}
	return false
}

// Settled waits until all connected proxies that a write concerns have its revision or a
// newer one. A mesh that looks at another scope must also have taken the revision of that
// scope.
func (l *Loop) Settled(ctx context.Context, revision uint64) error {
	scopes, err := l.Concerned(ctx, revision)
	if err != nil {
		return fmt.Errorf("revision %d: %w", revision, err)
	}
	return l.settled(ctx, revision, scopes...)
}

// settled waits until the scopes show a revision.
func (l *Loop) settled(ctx context.Context, revision uint64, scopes ...string) error {
	for {
		late, moved := l.late(revision, scopes)
		if late == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not show revision %d: %w", late, revision, ctx.Err())
		case <-moved:
		}
	}
}

// late returns a scope that does not show a revision, or an empty name if all scopes show
// it. The channel is closed when this may have changed.
func (l *Loop) late(revision uint64, scopes []string) (string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range scopes {
		p := l.planes[name]
		if p == nil && l.opening[name] > 0 || p != nil && (!p.common().announced.shows(revision) || l.blind(p, revision, scopes)) {
			return name, l.moved
		}
	}
	return "", l.moved
}

// begin notes that a scope is being opened. The scope shows nothing until it has a plane.
// The caller calls end when the plane exists or when opening has failed.
func (l *Loop) begin(scope string) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opening[scope]++
	if l.planes[scope] == nil && l.opening[scope] == 1 {
		l.Publisher.Announce(snapshot.Publication{Scope: scope})
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.opening[scope]--; l.opening[scope] > 0 {
			return
		}
		delete(l.opening, scope)
		if l.planes[scope] == nil {
			l.Publisher.End(scope)
		}
		l.turn()
	}
}
