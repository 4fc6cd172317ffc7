package syslog

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// ended is a connection whose user gives up during a write.
type ended struct {
	net.Conn
	giveUp context.CancelFunc
	closed atomic.Bool
	late   atomic.Int32
}

func (c *ended) Write(b []byte) (int, error) {
	c.giveUp()
	return len(b), nil
}

func (c *ended) SetWriteDeadline(time.Time) error {
	if c.closed.Load() {
		c.late.Add(1)
	}
	return nil
}

func (c *ended) Close() error {
	c.closed.Store(true)
	return nil
}

// TestTheEndDuringAWrite: a context that ends at the same moment as a write breaks nothing, and does nothing to the
// connection afterwards.
func TestTheEndDuringAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 1000 {
			ctx, cancel := context.WithCancel(t.Context())
			conn := &ended{giveUp: cancel}
			c := Conn{Target: Target{Network: "udp"}, conn: conn, made: time.Now()}
			if err := c.Send(ctx, [][]byte{[]byte("x")}); err != nil {
				t.Fatal(err)
			}
			c.Close()
			synctest.Wait()
			if n := conn.late.Load(); n > 0 {
				t.Fatal("the deadline was set after the end")
			}
		}
	})
}
