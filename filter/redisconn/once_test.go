package redisconn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

// swallower delivers what is sent. Once armed, it loses the answer to the next matching
// command.
type swallower struct {
	armed atomic.Pointer[loss]
}

// loss says which command loses its answer, and with which error.
type loss struct {
	command string
	err     error
}

func (s *swallower) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &swallowed{Conn: conn, by: s}, nil
}

// swallowed is one connection through a swallower.
type swallowed struct {
	net.Conn
	by   *swallower
	lost *loss
}

// Write implements [net.Conn].
func (s *swallowed) Write(p []byte) (int, error) {
	if l := s.by.armed.Load(); l != nil && bytes.Contains(p, []byte(l.command)) && s.by.armed.CompareAndSwap(l, nil) {
		s.lost = l
	}
	return s.Conn.Write(p)
}

// Read implements [net.Conn].
func (s *swallowed) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if s.lost != nil {
		_ = s.Conn.Close() // the server has answered, so the command has taken effect
		return 0, s.lost.err
	}
	return n, err
}

// TestWritesGoOutOnce: a write without an answer has failed, even in a cluster. If the
// library repeated it and got an answer, the write would look as if nothing of it could
// arrive late. Reads are repeated.
func TestWritesGoOutOnce(t *testing.T) {
	t.Parallel()
	server := redistest.StartMember(t)
	server.CLI(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	until(t, "the cluster is whole", func() bool { return server.CLI(t, "SET", "ready", "1") == "OK" })
	s := &swallower{}
	c := opened(t, Options{Settings: settings("redis+cluster://" + server.Address()), Dial: s.dial})
	for name, how := range map[string]error{"closed": io.EOF, "torn": io.ErrUnexpectedEOF, "silent": os.ErrDeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			for form, write := range map[string]func(key string) error{
				"alone": func(key string) error { return c.Incr(t.Context(), key).Err() },
				"among reads": func(key string) error {
					pipe := c.Pipeline()
					pipe.Get(t.Context(), key)
					wrote := pipe.Incr(t.Context(), key)
					_, _ = pipe.Exec(t.Context()) // each command has its own error
					return wrote.Err()
				},
			} {
				key := name + " " + form
				s.armed.Store(&loss{"incr", how})
				if err := write(key); !errors.Is(err, how) {
					t.Errorf("%s: a write that got no answer: %v", form, err)
				}
				if n := server.CLI(t, "GET", key); n != "1" {
					t.Errorf("%s: it was carried out %s times", form, n)
				}
			}
			s.armed.Store(&loss{"getrange", how})
			pipe := c.Pipeline()
			read := pipe.GetRange(t.Context(), "ready", 0, 10)
			if _, err := pipe.Exec(t.Context()); err != nil || read.Val() != "1" {
				t.Errorf("a question that got no answer: %q, %v", read.Val(), err)
			}
		})
	}
}

// TestWritesFollowTheirSlot: an answer that says where a slot is now is not an unknown
// outcome, so the write goes there.
func TestWritesFollowTheirSlot(t *testing.T) {
	t.Parallel()
	var servers [2]*redistest.Server
	for i := range servers {
		servers[i] = redistest.StartMember(t)
		servers[i].CLI(t, "CLUSTER", "SET-CONFIG-EPOCH", string(rune('1'+i)))
		if i > 0 {
			servers[0].Meet(t, servers[i])
		}
	}
	servers[0].CLI(t, "CLUSTER", "ADDSLOTSRANGE", "0", "16383")
	for _, server := range servers {
		until(t, "the cluster is whole", func() bool {
			return len(server.CLI(t, "CLUSTER", "SHARDS")) > 0 && server.CLI(t, "CLUSTER", "COUNTKEYSINSLOT", "0") == "0"
		})
	}
	until(t, "the first serves", func() bool { return servers[0].CLI(t, "SET", "ready", "1") == "OK" })
	until(t, "the second serves", func() bool { return bytes.HasPrefix([]byte(servers[1].CLI(t, "GET", "ready")), []byte("MOVED")) })
	c := opened(t, Options{Settings: settings("redis+cluster://" + servers[0].Address())})
	if err := c.Set(t.Context(), "key", "0", 0).Err(); err != nil {
		t.Fatal(err)
	}
	all, err := Identify(t.Context(), opened(t, Options{Settings: settings(servers[1].Address())}))
	if err != nil {
		t.Fatal(err)
	}
	second := Again(t.Context(), []string{all[0].Identity()})
	slot, to, from := servers[0].CLI(t, "CLUSTER", "KEYSLOT", "key"), servers[1].CLI(t, "CLUSTER", "MYID"), servers[0].CLI(t, "CLUSTER", "MYID")
	write := func(when string) {
		t.Helper()
		pipe := c.Pipeline()
		set := pipe.Set(t.Context(), "key", when, 0)
		other := pipe.Set(t.Context(), "ready", when, 0)
		if _, err := pipe.Exec(t.Context()); err != nil || set.Err() != nil || other.Err() != nil {
			t.Errorf("%s: %v, %v, %v", when, err, set.Err(), other.Err())
		}
		if got := c.Get(t.Context(), "key").Val(); got != when {
			t.Errorf("%s: %q", when, got)
		}
		pipe = c.Pipeline()
		there, here := pipe.GetRange(t.Context(), "key", 0, -1), pipe.GetRange(t.Context(), "ready", 0, -1)
		if _, _ = pipe.Exec(second); there.Val() != when || there.Err() != nil || !errors.Is(here.Err(), ErrNotVouched) {
			t.Errorf("%s: only the second is vouched for: %v, %v", when, there, here)
		}
	}
	servers[1].CLI(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", from)
	servers[0].CLI(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", to)
	servers[0].CLI(t, "MIGRATE", "127.0.0.1", servers[1].Port, "key", "0", "5000")
	write("on its way")
	for _, server := range []*redistest.Server{servers[1], servers[0]} {
		server.CLI(t, "CLUSTER", "SETSLOT", slot, "NODE", to)
	}
	write("moved")
	if err := c.Get(t.Context(), "nothing").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("a key that is not there: %v", err)
	}
}
