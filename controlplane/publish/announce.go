package publish

import (
	"context"
	"fmt"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// announce publishes what a plane shows now. The caller holds the lock of the plane. This
// keeps the publications of a scope in order.
func (l *Loop) announce(p plane, sets batch) {
	c := p.common()
	now := announced{true, c.revision, c.lacks, c.reached, c.tried}
	connected := l.noteSets(sets)
	l.mu.Lock()
	moves := now != c.announced
	l.mu.Unlock()
	if moves || len(connected)+len(c.parts)+len(c.mended) > 0 {
		all := []snapshot.Publication{{Scope: p.id(), Sets: connected, Revision: c.revision, Since: c.since, Lacks: c.lacks}}
		for scope, revision := range c.parts { // together with the plane, which shows more
			all = append(all, snapshot.Publication{Scope: scope, Revision: revision, Part: true})
		}
		l.Publisher.Announce(all...)
		for _, scope := range c.mended {
			l.Publisher.End(scope)
		}
	}
	c.since, c.mended = 0, nil
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

// UpToDate waits until a scope shows everything that was stored before the call. It returns
// Unavailable with the reason if the scope cannot be read or planned. Other scopes do not matter.
func (l *Loop) UpToDate(ctx context.Context, scope string) error {
	revision := l.Latest()
	for {
		late, moved := l.late(revision, []string{scope})
		if late == "" {
			return nil
		}
		if err := l.failed(scope, revision); err != nil {
			return fault.Wrap(fault.Unavailable, err, "%s cannot be planned at present", scope)
		}
		select {
		case <-ctx.Done():
			return fault.Wrap(fault.Unavailable, ctx.Err(), "what was written last is not planned yet: ask again").Again(time.Second)
		case <-moved:
		}
	}
}

// failed returns why a scope does not show a revision, or nil while it may do so soon.
func (l *Loop) failed(scope string, revision uint64) error {
	l.mu.Lock()
	p := l.planes[scope]
	tried := p != nil && p.common().announced.tried >= revision
	l.mu.Unlock()
	if p == nil {
		return nil
	}
	if err := p.unread(); err != nil {
		return err
	}
	if tried {
		for _, f := range l.problems.of(scope, "") {
			if f.Cell == cellPlan {
				return f.Err
			}
		}
	}
	return nil
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
