package freshness

import (
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/revoke"
	"github.com/meshgate/meshgate/controlplane/steady"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// planeClock is the wall clock of the control plane's host, which is set. Everybody
// else's is right.
type planeClock struct {
	// atItsWord, a defect, makes the control plane forget by the wall clock.
	atItsWord bool

	mu      sync.Mutex
	off     time.Duration
	process *steady.Clock // of the process of the moment
}

func (c *planeClock) set(off time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = off
}

func (c *planeClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off)
}

// begin returns the clock of a process that begins, nil for one that takes the wall clock
// at its word.
func (c *planeClock) begin() revoke.Clock {
	base := time.Now()
	next := steady.New(func() (time.Time, time.Duration) { return c.now(), time.Since(base) })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.process = next
	if c.atItsWord {
		return nil
	}
	return next
}

// past is up to when rows of the store have ended.
func (c *planeClock) past() time.Time {
	c.mu.Lock()
	process := c.process
	c.mu.Unlock()
	if c.atItsWord {
		return c.now()
	}
	return process.Earliest()
}

func (c *planeClock) store() store.Store {
	c.begin()
	return memstore.Open(memstore.Options{Now: c.now, Past: c.past})
}
