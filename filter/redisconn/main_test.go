package redisconn

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/filter/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds how long a test waits for something that must succeed, on a busy machine.
const patience = time.Minute

// opened returns a client with long timeouts, so that a late answer does not fail a test.
func opened(t *testing.T, o Options) *client {
	t.Helper()
	o.Timeout, o.DialTimeout = cmp.Or(o.Timeout, patience), cmp.Or(o.DialTimeout, patience)
	c, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.(*client)
}

func settings(url string) contract.RedisSettings { return contract.RedisSettings{URL: url} }

// respond runs a server that sends what answer returns for each piece it reads.
func respond(t *testing.T, answer func(question string) string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
				for piece := make([]byte, 4096); ; {
					n, err := conn.Read(piece)
					if err != nil {
						return
					}
					if _, err := io.WriteString(conn, answer(string(piece[:n]))); err != nil {
						return
					}
				}
			})
		}
	})
	return l.Addr().String()
}

// until waits for a state that another process brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not in time: %s", what)
		}
	}
}

func writeFile(t *testing.T, path, format string, args ...any) {
	t.Helper()
	if err := os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o600); err != nil {
		t.Fatal(err)
	}
}
