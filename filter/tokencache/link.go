package tokencache

import (
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

const (
	// backoffMin and backoffMax bound the pause before the next attempt. The pause doubles
	// with each failure and is jittered by half.
	backoffMin = 50 * time.Millisecond
	backoffMax = time.Second
)

// keepLink keeps up the freshness link until the cache closes. It connects, runs the session
// and starts again when the session ends or the settings name another control plane. A panic
// ends only one session.
func (c *Cache) keepLink() {
	// After Close nothing maintains the lease, so L1 must not use what is left of it.
	defer c.setLease(nil)
	failures := 0
	for c.ctx.Err() == nil {
		cp := c.config.Load().settings.ControlPlane
		if cp == nil {
			c.wait(nil)
			continue
		}
		end := sessionFailed
		c.opts.Recover("link session", func() { end = c.runSession(*cp) })
		switch end {
		case sessionLeft:
			failures = 0
			continue
		case sessionBroke:
			failures = 1
		case sessionFailed:
			failures++
		}
		if c.ctx.Err() != nil {
			return
		}
		c.counters.linkFailures.Add(1)
		c.pause(backoff(failures))
	}
}

// sessionEnd says how a session ended.
type sessionEnd uint8

const (
	// sessionFailed: it never had a lease.
	sessionFailed sessionEnd = iota
	// sessionBroke: it had a lease, so the control plane is there.
	sessionBroke
	// sessionLeft: the filter said goodbye.
	sessionLeft
)

// wait returns when the cache closes, the settings change or the timer fires.
func (c *Cache) wait(timer <-chan time.Time) {
	select {
	case <-c.ctx.Done():
	case <-c.changed:
	case <-timer:
	}
}

// pause waits before the next attempt. [Cache.Hasten] shortens the wait, but never below the
// shortest pause after a first failure.
func (c *Cache) pause(d time.Duration) {
	began, timer := time.Now(), time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.ctx.Done():
	case <-c.changed:
	case <-timer.C:
	case <-c.hastened:
		// Without jitter, because the token may be used at once, and clients do not ask in
		// step.
		timer.Reset(min(d, max(0, backoffMin-time.Since(began))))
		c.wait(timer.C)
	}
}

// Hasten makes the next attempt to link begin soon. It is called when the proxy sends a
// client to the control plane for a token. The client will use the token next, when Redis
// may not have it yet, so after a start of the control plane the link must not come up much
// later than the proxy's route to it. Hasten never blocks.
func (c *Cache) Hasten() {
	if c.session.Load() != nil {
		return
	}
	select {
	case c.hastened <- struct{}{}:
	default: // another call is already pending
	}
}

func backoff(failures int) time.Duration {
	d := backoffMin << min(failures, 5) // the first pause is at least backoffMin
	d = min(d, backoffMax)
	return d/2 + rand.N(d/2) //nolint:gosec // jitter needs no secrecy
}

// runSession connects once and serves the link until it breaks, the cache closes, or the
// settings name another control plane.
func (c *Cache) runSession(cp contract.ControlPlaneSettings) sessionEnd {
	defer c.attemptEnded()
	conn, err := c.dialLink(c.ctx, cp)
	if err != nil {
		c.logLink("control plane cannot be reached", &cp, err)
		return sessionFailed
	}
	c.awaitWelcome()
	s := newSession(c, conn, cp)
	defer c.retire(s)
	if err := s.hello(c.ctx); err != nil {
		c.logLink("freshness link was not welcomed", &cp, err)
		return sessionFailed
	}
	c.counters.linkConnects.Add(1)
	c.log.Info("freshness link is up", "address", cp.Address)
	c.linkTrouble = ""
	c.inUse.resume()
	s.acknowledge() // the trust of the welcome may have been written to disk meanwhile
	c.attemptEnded()
	if now := c.config.Load().settings.ControlPlane; now == nil || *now != cp {
		s.depart() // the change of the settings happened before this session was visible
	}
	written := make(chan struct{})
	c.start("link writer", func() {
		defer close(written)
		defer s.close()
		s.write()
	})
	defer func() {
		close(s.broken)
		c.retire(s) // otherwise the writer might not end
		<-written
	}()
	err = s.read()
	switch granted, left := s.state(); {
	case left:
		return sessionLeft
	case granted:
		c.logBroke(&cp, err)
		return sessionBroke
	default:
		c.logLink("freshness link broke before its first lease", &cp, err)
		return sessionFailed
	}
}

// retire ends a session. No look-up finds it any more, and pending questions are answered.
func (c *Cache) retire(s *session) {
	c.session.CompareAndSwap(s, nil)
	s.close()
	s.fail()
}

// awaitWelcome makes look-ups wait. The control plane is there, so refusing a token that it
// has just issued would be wrong some milliseconds later.
func (c *Cache) awaitWelcome() {
	select {
	case <-*c.coming.Load():
		next := make(chan struct{})
		c.coming.Store(&next)
	default: // they wait already
	}
}

// attemptEnded releases the look-ups that wait for the link.
func (c *Cache) attemptEnded() {
	coming := *c.coming.Load()
	select {
	case <-coming:
	default:
		close(coming)
	}
}

// attempted returns a channel that is closed unless a link may come up at once. It is open
// from a connection to its Welcome, and during the first attempt, because a filter that has
// just started must not refuse a token that it could know some milliseconds later.
func (c *Cache) attempted() <-chan struct{} { return *c.coming.Load() }

// logLink reports a failure of the link unless the cache closes. A failure that repeats with
// every attempt is reported once: a control plane that is away for an hour should not cause
// a warning each second.
func (c *Cache) logLink(msg string, cp *contract.ControlPlaneSettings, err error) {
	if c.ctx.Err() != nil {
		return
	}
	level, trouble := slog.LevelWarn, msg+": "+withoutPorts(err.Error())
	if trouble == c.linkTrouble {
		level = slog.LevelDebug
	}
	c.linkTrouble = trouble
	c.log.Log(c.ctx, level, msg, "address", cp.Address, "error", err)
}

// logBroke reports the end of a link that worked. An orderly end by the control plane is no
// trouble by itself: it happens when the node has renewed its token. If the control plane is
// gone, the next attempt follows at once and reports it.
func (c *Cache) logBroke(cp *contract.ControlPlaneSettings, err error) {
	if errors.Is(err, io.EOF) && c.ctx.Err() == nil {
		c.log.Info("freshness link was ended by the control plane", "address", cp.Address)
		return
	}
	c.logLink("freshness link broke", cp, err)
}

// ports matches the local ports of connections, which differ each time.
var ports = regexp.MustCompile(`:\d+->`)

func withoutPorts(text string) string { return ports.ReplaceAllString(text, "->") }
