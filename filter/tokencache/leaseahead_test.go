package tokencache

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// A lease that was noted by a clock that was ahead is noted anew when the clock is right,
// on the same link, on the next one, and by the next process. So a filter that starts
// without the control plane believes what it was told.
func TestLeaseOfAClockThatWasAhead(t *testing.T) {
	for name, next := range map[string]func(d *directory, c *Cache, l *fakeLink) (*Cache, *fakeLink){
		"on the same link": func(d *directory, c *Cache, l *fakeLink) (*Cache, *fakeLink) {
			d.clock.step.Store(0)
			return c, l
		},
		"on the next link": func(d *directory, c *Cache, l *fakeLink) (*Cache, *fakeLink) {
			_ = l.conn.Close()
			d.clock.step.Store(0)
			return c, d.welcomed()
		},
		"by the next process": func(d *directory, c *Cache, l *fakeLink) (*Cache, *fakeLink) {
			d.crash(c, l)
			d.clock.step.Store(0)
			d.control.down.Store(false)
			again := d.open()
			return again, d.welcomed()
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t)
			d.clock.step.Store(int64(5 * time.Hour))
			c := d.open()
			l := d.welcomed()
			ahead := d.clock.Now().millis() - time.Hour.Milliseconds()
			soon(t, "a lease is noted by the clock that is ahead", func() bool { r := d.file(); return r != nil && r.Leased > ahead })
			c, l = next(d, c, l)
			soon(t, "a lease is noted by the right clock", func() bool { r := d.file(); return r != nil && r.Leased < ahead })
			d.crash(c, l)
			if got := ask(t, d.open(), 1); got != contract.Found {
				t.Errorf("answer %d, want Found", got)
			}
		})
	}
}

// welcomed accepts the next link and says what to believe.
func (d *directory) welcomed() *fakeLink {
	l := d.control.accept()
	l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog, Trust: testTrust})
	l.invalidate(1)
	l.expectAck(1)
	return l
}

// crash ends a cache whose control plane is away, so that its goodbye is not sent.
func (d *directory) crash(c *Cache, l *fakeLink) {
	d.control.down.Store(true)
	_ = l.conn.Close()
	unlinked(d.t, c)
	c.Close()
}
