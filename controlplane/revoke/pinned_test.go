package revoke

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

// sentinels answers where the primary is.
type sentinels struct {
	address string
	primary atomic.Value
}

func startSentinel(t *testing.T) *sentinels {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sentinels{address: l.Addr().String()}
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
					answer := "-ERR unknown command\r\n"
					if strings.Contains(string(piece[:n]), "get-master-addr-by-name") {
						host, port, _ := net.SplitHostPort(s.primary.Load().(string))
						answer = fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(host), host, len(port), port)
					}
					if _, err := io.WriteString(conn, answer); err != nil {
						return
					}
				}
			})
		}
	})
	return s
}

// TestReplacedRedisIsNotWrittenUnderTheOldEpoch: a revocation must not be written to the
// successor of a primary before the keeper has looked at it. It would count as written,
// while a filter out of reach still reads the former primary.
func TestReplacedRedisIsNotWrittenUnderTheOldEpoch(t *testing.T) {
	t.Parallel()
	first, second := redistest.Start(t), redistest.Start(t)
	s := startSentinel(t)
	s.primary.Store(first.Address())
	c, err := Open(contract.RedisSettings{URL: "redis+sentinel://" + s.address + "/m"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	w := newWorld(t, c)
	until(t, "redis up", func() bool { return w.r.Stats().RedisUp })
	name := w.mint("a", false)
	clockOf := func(addr string) (c contract.Clock) {
		raw := client(t, addr)
		data, err := raw.Get(context.Background(), contract.RedisClockKey).Bytes()
		if err == nil {
			c, err = contract.ParseClock(data)
		}
		if err != nil {
			return contract.Clock{}
		}
		return c
	}
	old := clockOf(first.Address())
	if old.Epoch == 0 {
		t.Fatal("no clock")
	}
	s.primary.Store(second.Address())
	first.Disconnect(t)
	if err := w.delete(name); err != nil {
		t.Fatal(err)
	}
	if got := clockOf(second.Address()); got.Epoch == old.Epoch {
		t.Errorf("the successor was written to as if it was the former: %+v", got)
	}
	until(t, "the successor is in order", func() bool {
		got := clockOf(second.Address())
		return got.Epoch != 0 && got.Epoch != old.Epoch
	})
}
