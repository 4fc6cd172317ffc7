package redisconn

import (
	"context"
	"errors"
	"net"
	"testing"
)

// TestLateConnectionsAreClosed: what a dialer that looks at no context returns after the client was
// closed, or after its time, is closed and nobody gets it. One in time is passed on.
func TestLateConnectionsAreClosed(t *testing.T) {
	for name, test := range map[string]struct {
		late func(d *dials, timeIsUp func())
		want error
	}{
		"in time":               {func(*dials, func()) {}, nil},
		"after the client":      {func(d *dials, _ func()) { d.end() }, net.ErrClosed},
		"after the time for it": {func(_ *dials, timeIsUp func()) { timeIsUp() }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDials()
			defer d.end()
			ctx, timeIsUp := context.WithCancel(t.Context())
			defer timeIsUp()
			ours, theirs := net.Pipe()
			defer theirs.Close()
			conn, err := d.counted(d.kept(func(context.Context, string, string) (net.Conn, error) {
				test.late(d, timeIsUp)
				return ours, nil
			}))(ctx, "tcp", "redis:6379")
			d.wait()
			if !errors.Is(err, test.want) || (conn != nil) != (test.want == nil) {
				t.Fatalf("%v %v", conn, err)
			}
			if len(d.conns) != map[bool]int{true: 1}[test.want == nil] {
				t.Errorf("%d connections are kept", len(d.conns))
			}
			if conn != nil {
				_ = conn.Close()
			}
			if _, err := theirs.Read(make([]byte, 1)); err == nil {
				t.Error("it is open")
			}
		})
	}
}
