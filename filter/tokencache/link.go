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
	// backoffMin and backoffMax bound the pause before the next attempt; it
	// doubles from failure to failure and is jittered by half.
	backoffMin = 50 * time.Millisecond
	backoffMax = time.Second
)

// keepLink holds the freshness link until the cache closes: it connects, runs
// the session and starts again when that ends or the settings name another
// control plane. A panic ends one session only.
func (c *Cache) keepLink() {
	// After Close nothing holds the lease; L1 must not answer on what is left.
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

// sessionEnd is how a session ended.
type sessionEnd uint8

const (
	// sessionFailed: it never had a lease.
	sessionFailed sessionEnd = iota
	// sessionBroke: it had one, so the control plane is there.
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

// pause waits before the next attempt: less long if somebody hastens it, but never so
// that attempts follow each other faster than after a first failure.
func (c *Cache) pause(d time.Duration) {
	began, timer := time.Now(), time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.ctx.Done():
	case <-c.changed:
	case <-timer.C:
	case <-c.hastened:
		// Not jittered: the token may be used at once, and clients do not ask in step.
		timer.Reset(min(d, max(0, backoffMin-time.Since(began))))
		c.wait(timer.C)
	}
}

// Hasten makes the next attempt to link begin soon. Whoever is handed to the control
// plane for a token will use it next, when Redis may not have it yet: the proxy's way to a
// control plane that has just started must not be back long before the link. It never
// blocks.
func (c *Cache) Hasten() {
	if c.session.Load() != nil {
		return
	}
	select {
	case c.hastened <- struct{}{}:
	default: // it is known
	}
}

func backoff(failures int) time.Duration {
	d := backoffMin << min(failures, 5) // the first pause is at least backoffMin
	d = min(d, backoffMax)
	return d/2 + rand.N(d/2) //nolint:gosec // jitter needs no secrecy
}

// runSession connects once and serves the link until it breaks, the cache
// closes, or the settings name another control plane.
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
	s.acknowledge() // the trust of the welcome may have come to the disk meanwhile
	c.attemptEnded()
	if now := c.config.Load().settings.ControlPlane; now == nil || *now != cp {
		s.depart() // whoever changed the settings did not see this session
	}
	written := make(chan struct{})
	c.start("link writer", func() {
		defer close(written)
		defer s.close()
		s.write()
	})
	defer func() {
		close(s.broken)
		c.retire(s) // else the writer might not end
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

// retire ends a session. Nobody finds it any more, and whoever has asked is answered.
func (c *Cache) retire(s *session) {
	c.session.CompareAndSwap(s, nil)
	s.close()
	s.fail()
}

// awaitWelcome has look-ups wait: the control plane is there, and refusing what it may
// have issued just now would be wrong some milliseconds later.
func (c *Cache) awaitWelcome() {
	select {
	case <-*c.coming.Load():
		next := make(chan struct{})
		c.coming.Store(&next)
	default: // they wait already
	}
}

// attemptEnded lets look-ups go on that waited for the link.
func (c *Cache) attemptEnded() {
	coming := *c.coming.Load()
	select {
	case <-coming:
	default:
		close(coming)
	}
}

// attempted is closed while no link may be there at once: it is open during the first
// attempt, as a filter that has just begun must not refuse what it could know some
// milliseconds later, and from a connection to its Welcome.
func (c *Cache) attempted() <-chan struct{} { return *c.coming.Load() }

// logLink reports a failure of the link unless the cache closes. One that every attempt
// meets is reported once: a control plane that is away for an hour is no news each
// second.
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

// logBroke reports the end of a link that was good. A control plane that hangs up in good
// order is no trouble by itself: it does so when the node has renewed its token. One that
// is gone is told of by the attempt that follows at once.
func (c *Cache) logBroke(cp *contract.ControlPlaneSettings, err error) {
	if errors.Is(err, io.EOF) && c.ctx.Err() == nil {
		c.log.Info("freshness link was ended by the control plane", "address", cp.Address)
		return
	}
	c.logLink("freshness link broke", cp, err)
}

// ports are those of connections of this side, which differ with each.
var ports = regexp.MustCompile(`:\d+->`)

func withoutPorts(text string) string { return ports.ReplaceAllString(text, "->") }
