package tokencache

import (
	"context"
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
	defer c.lease.Store(nil)
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
		pause := time.NewTimer(backoff(failures))
		c.wait(pause.C)
		pause.Stop()
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

func backoff(failures int) time.Duration {
	d := backoffMin << min(failures, 5) // the first pause is at least backoffMin
	d = min(d, backoffMax)
	return d/2 + rand.N(d/2) //nolint:gosec // jitter needs no secrecy
}

// runSession connects once and serves the link until it breaks, the cache
// closes, or the settings name another control plane.
func (c *Cache) runSession(cp contract.ControlPlaneSettings) sessionEnd {
	defer c.firstAttemptEnded()
	conn, err := c.dialLink(c.ctx, cp)
	if err != nil {
		c.logLink("control plane cannot be reached", &cp, err)
		return sessionFailed
	}
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
	c.firstAttemptEnded()
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
		c.logLink("freshness link broke", &cp, err)
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

// firstAttemptEnded lets look-ups go on that began before it was known whether
// the control plane is there.
func (c *Cache) firstAttemptEnded() { c.attempt.Do(func() { close(c.attempted) }) }

// linked returns the session, nil if there is none. Right after the start it
// waits for the first attempt: a filter that has just begun must not refuse what
// it could know some milliseconds later.
func (c *Cache) linked(ctx context.Context) *session {
	select {
	case <-c.attempted:
	case <-ctx.Done():
	}
	return c.session.Load()
}

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

// ports are those of connections of this side, which differ with each.
var ports = regexp.MustCompile(`:\d+->`)

func withoutPorts(text string) string { return ports.ReplaceAllString(text, "->") }
