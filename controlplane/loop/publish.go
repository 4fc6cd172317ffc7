package loop

import (
	"context"
	"fmt"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// announce publishes what planes show now, all at once. The caller holds mu.
func (l *Loop) announce(batches map[plane]batch) {
	var ps []snapshot.Publication
	turns := false
	for p, sets := range batches {
		s, connected := p.far(), batch{}
		for id, set := range sets {
			if l.nodes[id] != nil {
				connected[id] = set
			}
		}
		moves := !s.announced.yes || s.revision != s.announced.revision || s.lacks != s.announced.lacks
		if moves || len(connected) > 0 {
			ps = append(ps, snapshot.Publication{Scope: p.id(), Sets: connected, Revision: s.revision, Since: s.since, Lacks: s.lacks})
		}
		s.announced.yes, s.announced.revision, s.announced.lacks, s.since = true, s.revision, s.lacks, 0
		turns = turns || moves
	}
	if len(ps) > 0 {
		l.Publisher.Announce(ps...)
	}
	if turns {
		l.turn()
	}
}

// turn wakes those who wait for a plane. The caller holds mu.
func (l *Loop) turn() {
	close(l.moved)
	l.moved = make(chan struct{})
}

// Concerned lists the scopes that a write concerned: those it changed and the
// meshes that look at one of them. It waits for a revision that does not exist
// yet. What a write of long ago concerned is not known any more: then it is all
// scopes. Scopes without proxies show everything and are left out. The error is
// that of ctx or of the store.
func (l *Loop) Concerned(ctx context.Context, revision uint64) ([]string, error) {
	if err := l.Views.Exists(ctx, revision); err != nil {
		return nil, err
	}
	keys, known, err := l.Views.Commit(ctx, revision)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []string{}
	for name, p := range l.planes {
		if !known || l.touches(p, keys) {
			out = append(out, name)
		}
	}
	for name := range l.opening {
		if l.planes[name] == nil && (!known || touchesScope(name, keys)) {
			out = append(out, name)
		}
	}
	return out, nil
}

// touches reports whether changes concern a plane or a control plane that it looks
// at. The caller holds mu.
func (l *Loop) touches(p plane, keys []model.Key) bool {
	for _, key := range keys {
		if p.concerns(key) {
			return true
		}
		m, ok := p.(*meshPlane)
		if !ok {
			continue
		}
		for name := range l.looksAt[m.name] {
			if g := l.planes[controlPlaneScope(name)]; g != nil && g.concerns(key) {
				return true
			}
		}
	}
	return false
}

// touchesScope is touches for a scope that cannot be read yet.
func touchesScope(scope string, keys []model.Key) bool {
	for _, key := range keys {
		if scope == MeshScope(key.Scope) || scope == controlPlaneScope(key.Scope) || key.Scope == "" && scope == MeshScope(key.Name) {
			return true
		}
	}
	return false
}

// Settled waits until everything connected that a write concerned shows its
// revision or a newer one.
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

// late returns a scope that does not show a revision, empty if all do, and a
// channel that is closed when that may have changed.
func (l *Loop) late(revision uint64, scopes []string) (string, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range scopes {
		p := l.planes[name]
		if p == nil && l.opening[name] > 0 || p != nil && !p.far().shows(revision) {
			return name, l.moved
		}
	}
	return "", l.moved
}

// begin notes that a scope is opened: until it has a plane it shows nothing. end is
// called when it has one, or there will be none.
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
