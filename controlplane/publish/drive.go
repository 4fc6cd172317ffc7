package publish

import (
	"context"
	"time"
)

// Bounds of the pause between two rounds of a plane. A round that takes long makes the
// next one wait twice as long, within these bounds, so that storms are coalesced.
const (
	minWindow = 5 * time.Millisecond
	maxWindow = 100 * time.Millisecond
)

// drive plans a scope whenever something in it changes, or something that failed is
// due again, until the scope is over or ctx ends. No other scope waits for it.
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

// round plans what changed in a scope and publishes it. It returns when something that
// failed is due again, zero if nothing is.
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

// show publishes what a plane has planned, and its failures. Those come first: whoever
// has waited for the revision sees what came of it. The caller holds the lock of the
// plane.
func (l *Loop) show(p plane, sets batch) {
	fs := p.failures()
	l.problems.set(p.id(), fs)
	l.announce(p, sets)
	if len(fs) > 0 { // who waits for this plane may not want to any more
		l.mu.Lock()
		defer l.mu.Unlock()
		l.turn()
	}
}

// reap ends a plane whose mesh is gone, with the last of its proxies. The caller
// holds the lock of the plane.
func (l *Loop) reap(p plane) {
	c := p.common()
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.ended() || !p.gone() {
		return
	}
	close(c.over)
	delete(l.planes, p.id())
	l.problems.drop(p.id())
	if m, ok := p.(*meshPlane); ok {
		delete(l.looksAt, m.name)
		l.confirmed.take(m.name)
	}
	p.close()
	l.Publisher.End(p.id())
	l.turn()
}
