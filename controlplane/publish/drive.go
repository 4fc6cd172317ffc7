package publish

import (
	"context"
	"time"
)

// Bounds of the pause between two rounds of a plane. The pause is twice as long as the last
// round, within these bounds, so that bursts of changes are coalesced.
const (
	minWindow = 5 * time.Millisecond
	maxWindow = 100 * time.Millisecond
)

// drive plans a scope when something in it changes, or when something that failed is due
// for another attempt. It ends when the scope is over or ctx ends. Other scopes do not wait
// for it.
func (l *Loop) drive(ctx context.Context, p plane) {
	c := p.common()
	window, retry := time.NewTimer(0), time.NewTimer(0)
	defer window.Stop()
	defer retry.Stop()
	for {
		// The window of the last round ends before the next begins.
		select {
		case <-ctx.Done():
			return
		case <-c.over:
			return
		case <-window.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-c.over:
			return
		case <-c.wake:
		case <-retry.C:
		}
		start := time.Now()
		next := l.round(p, start)
		if l.Planned != nil {
			l.Planned(time.Since(start))
		}
		retry.Stop()
		if !next.IsZero() {
			retry.Reset(time.Until(next))
		}
		window.Reset(min(max(2*time.Since(start), minWindow), maxWindow))
	}
}

// round plans the changes of a scope and publishes the result. It returns the time of the
// next attempt of something that failed, or zero if nothing failed.
func (l *Loop) round(p plane, now time.Time) (next time.Time) {
	c := p.common()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended() {
		return time.Time{}
	}
	l.show(p, p.update(now))
	l.reap(p)
	return p.due()
}

// show publishes what a plane has planned, and its failures. The failures are published
// first: a client that waited for the revision must find them. The caller holds the lock of
// the plane.
func (l *Loop) show(p plane, sets batch) {
	fs := p.failures()
	l.problems.set(p.id(), fs)
	l.announce(p, sets)
	if len(fs) > 0 { // a client that waits for this plane may give up now
		l.mu.Lock()
		defer l.mu.Unlock()
		l.turn()
	}
}

// reap ends the plane of a deleted mesh or control plane once its last proxy has left. The caller
// holds the lock of the plane.
func (l *Loop) reap(p plane) {
	c := p.common()
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.ended() || !p.gone() || l.lookers(p) {
		return
	}
	close(c.over)
	delete(l.planes, p.id())
	l.problems.drop(p.id())
	switch p := p.(type) {
	case *meshPlane:
		for name := range l.looksAt[p.name] { // it may have been the last that looked at a deleted one
			if seen := l.planes[ControlPlaneScope(name)]; seen != nil {
				seen.common().signal()
			}
		}
		delete(l.looksAt, p.name)
		l.confirmed.take(p.name)
	case *gatewayPlane:
		l.followed.Delete(p.name)
	}
	p.close()
	l.Publisher.End(p.id())
	l.turn()
}
