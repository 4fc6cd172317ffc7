package publish

import (
	"context"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
)

// inquiry is the question which scopes a commit concerns.
type inquiry struct {
	l        *Loop
	revision uint64
	// keys are the changes, if the store still remembers them.
	keys  []model.Key
	known bool
	// members is what control planes consist of that are not followed; nil for a mesh.
	members map[string]*view.Membership
	// shaped says of control planes whether they may have come to consist of others in the
	// commits of a span, and unread are those of which that is asked.
	shaped map[string]answered
	unread map[string]view.Span
}

// answered is the answer about one span.
type answered struct {
	of  view.Span
	yes bool
}

// inquire begins the question about a revision that exists.
func (l *Loop) inquire(ctx context.Context, revision uint64) (*inquiry, error) {
	keys, known, err := l.Views.Commit(ctx, revision)
	if err != nil {
		return nil, err
	}
	return &inquiry{
		l: l, revision: revision, keys: keys, known: known,
		members: map[string]*view.Membership{}, shaped: map[string]answered{}, unread: map[string]view.Span{},
	}, nil
}

// Concerned lists the scopes that a write concerns: the scopes that it belongs to, the groups
// of these, and the meshes that look at one of them. It waits if the revision does not exist
// yet. The changes of an old revision may be forgotten; Concerned then lists all scopes.
// Scopes that nobody follows are left out: they have no connected proxies. The error comes
// from ctx or from the store.
func (l *Loop) Concerned(ctx context.Context, revision uint64) ([]string, error) {
	if err := l.Views.Exists(ctx, revision); err != nil {
		return nil, err
	}
	q, err := l.inquire(ctx, revision)
	if err != nil {
		return nil, err
	}
	for {
		// What is not followed is read while nothing is locked.
		if err := l.memberships(ctx, q.members, l.opens()); err != nil {
			return nil, err
		}
		if err := q.read(ctx); err != nil {
			return nil, err
		}
		if out, all := q.concerned(); all {
			return out, nil
		}
	}
}

// concerned lists the scopes that the commit concerns, all if its changes are not known. all
// says that everything was known that this depends on.
func (q *inquiry) concerned() (out []string, all bool) {
	l := q.l
	l.mu.Lock()
	defer l.mu.Unlock()
	out = []string{}
	for name, p := range l.planes {
		if !q.known || q.touches(p) {
			out = append(out, name)
		}
	}
	for name := range l.opening {
		m, read := q.members[name]
		if !read {
			return nil, false
		}
		if l.planes[name] == nil && (!q.known || q.touchesScope(name, m)) {
			out = append(out, name)
		}
	}
	return out, len(q.unread) == 0
}

// read finds out which control planes have come to consist of others, as far as that was
// asked.
func (q *inquiry) read(ctx context.Context) error {
	shaped, err := q.l.Views.Shaped(ctx, q.unread)
	if err != nil {
		return err
	}
	for name, span := range q.unread {
		q.shaped[name] = answered{span, shaped[name]}
	}
	clear(q.unread)
	return nil
}

// Concerns returns a function that reports whether a write concerns a scope. Unlike
// [Loop.Concerned], it includes scopes without connected proxies, because a proxy that is
// away may belong to one of them. Only one goroutine at a time may call the function.
func (l *Loop) Concerns(ctx context.Context, revision uint64) (func(scope string) bool, error) {
	open, err := l.Concerned(ctx, revision)
	if err != nil {
		return nil, err
	}
	q, err := l.inquire(ctx, revision)
	if err != nil {
		return nil, err
	}
	return func(scope string) bool {
		if !q.known || slices.Contains(open, scope) {
			return true
		}
		// What cannot be read may well be concerned.
		if l.memberships(ctx, q.members, []string{scope}) != nil {
			return true
		}
		yes := q.touchesScope(scope, q.members[scope])
		if len(q.unread) > 0 {
			yes = q.read(ctx) != nil || q.touchesScope(scope, q.members[scope])
		}
		return yes
	}, nil
}

// touches reports whether one of the changes belongs to a plane or to a control plane that
// the plane looks at. The caller holds the lock of the loop.
func (q *inquiry) touches(p plane) bool {
	if q.owned(p) {
		return true
	}
	m, ok := p.(*meshPlane)
	if !ok {
		return false
	}
	for name := range q.l.looksAt[m.name] {
		if g := q.l.planes[ControlPlaneScope(name)]; g != nil && q.owned(g) {
			return true
		}
	}
	return false
}

// owned reports whether one of the changes belongs to a plane, or to a member of it. Changes
// that the plane does not show, such as changes of secrets, belong to it as well: a client
// that waits for the last of several writes must also wait for the writes before it.
func (q *inquiry) owned(p plane) bool {
	for _, key := range q.keys {
		if scope, known := q.l.scopeOf(key); p.concerns(key) || known && scope == p.id() {
			return true
		}
	}
	g, ok := p.(*gatewayPlane)
	if !ok {
		return false
	}
	m := g.scope.Membership()
	return q.ofMember(g.name, &m)
}

// ofMember reports whether one of the changes is in a scope that a control plane consists of,
// or may have consisted of when they were made. A member that has left since may still be
// served by gateways that have not taken the change, and a view that is late does not know
// who has come.
func (q *inquiry) ofMember(name string, m *view.Membership) bool {
	some := false
	for _, key := range q.keys {
		if !q.l.ofPlane(key) {
			continue
		}
		if some = true; m.Has(key.Scope) {
			return true
		}
	}
	gap, unknown := m.Gap(q.revision)
	if !some || !unknown {
		return false
	}
	a, asked := q.shaped[name]
	switch {
	case asked && a.yes:
		return true
	case asked && a.of.After <= gap.After && gap.UpTo <= a.of.UpTo:
		return false
	}
	q.unread[name] = gap
	return false
}

// touchesScope does what touches does, for a scope that is not followed, such as one that
// cannot be read yet. m is what the scope consists of, nil for a mesh.
func (q *inquiry) touchesScope(scope string, m *view.Membership) bool {
	for _, key := range q.keys {
		if m != nil && m.Shapes(key) || scope == ZoneScope && q.l.ofZone(key) || key.Kind == mesh.Crossings.Name && strings.HasPrefix(scope, MeshScope("")) {
			return true
		}
		if of, known := q.l.scopeOf(key); known && of == scope {
			return true
		} else if !known && (scope == MeshScope(key.Scope) || scope == ControlPlaneScope(key.Scope) || scope == MeshScope(key.Name)) {
			return true
		}
	}
	name, isPlane := planeOf(scope)
	return isPlane && m != nil && q.ofMember(name, m)
}

// ofZone reports whether a change may concern the proxies of the zone: one of a mesh, or of what
// zones consist of.
func (l *Loop) ofZone(key model.Key) bool {
	scoping, known := l.scopings[key.Kind]
	switch key.Kind {
	case mesh.ZoneIngresses.Name, mesh.ZoneEgresses.Name, mesh.Zones.Name, mesh.Meshes.Name:
		return key.Scope == ""
	}
	return !known || scoping == model.Mesh
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
