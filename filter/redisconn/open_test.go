package redisconn

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

// TestServer identifies a real server, over TCP and over a Unix socket.
func TestServer(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "redis.sock")
	server := redistest.Start(t, "--unixsocket", socket, "--maxmemory-policy", "allkeys-lru")
	want := ""
	for _, url := range []string{"redis://" + server.Address() + "/3", server.Address(), "unix://" + socket + "?db=3"} {
		var seen atomic.Pointer[Server]
		c := opened(t, Options{Settings: settings(url), OnConnect: func(_ context.Context, info func() (Server, error)) error {
			s, err := info()
			seen.Store(&s)
			return err
		}})
		all, err := Identify(t.Context(), c)
		if err != nil || len(all) != 1 {
			t.Fatalf("%s: %v %v", url, all, err)
		}
		s, connected := all[0], *seen.Load()
		if s.Time.IsZero() || connected.Time.After(s.Time) {
			t.Errorf("%s: its clock says %v, on connecting %v", url, s.Time, connected.Time)
		}
		if connected.Time = s.Time; connected != s || len(s.RunID) != 40 || len(s.ReplID) != 40 || s.Role != "master" || s.Eviction != "allkeys-lru" {
			t.Errorf("%s: %+v, on connecting %+v", url, s, *seen.Load())
		}
		if want == "" {
			want = s.RunID
		}
		if s.RunID != want {
			t.Errorf("%s: another server", url)
		}
	}
}

// TestRefusedFacts: a user who may not ask INFO still gets a client.
func TestRefusedFacts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	user := server.User(t, "reader", "pass", "~*", "-@all", "+get")
	c := opened(t, Options{Settings: settings("redis://" + user + server.Address())})
	all, err := Identify(t.Context(), c)
	if err != nil || len(all) != 1 || all[0] != (Server{}) {
		t.Fatalf("%+v %v", all, err)
	}
	if err := c.Get(t.Context(), "x").Err(); !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
}

// TestOnConnectRefuses: a connection that the hook refuses is not used.
func TestOnConnectRefuses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	foreign := errors.New("foreign")
	c := opened(t, Options{Settings: settings(server.Address()), OnConnect: func(context.Context, func() (Server, error)) error { return foreign }})
	if err := c.Get(t.Context(), "x").Err(); !errors.Is(err, foreign) {
		t.Fatal(err)
	}
	if strings.Contains(server.CLI(t, "INFO", "commandstats"), "cmdstat_get:") {
		t.Fatal("the server was asked")
	}
}

// TestCloseEndsDials: a dial that never succeeds does not outlive its client.
func TestCloseEndsDials(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan struct{})
	c, err := Open(Options{Settings: settings("127.0.0.1:1"), DialTimeout: time.Hour, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		close(begun)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if err := c.Get(ctx, "x").Err(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	default:
		t.Fatal("the dial goes on")
	}
}

// TestLateFailuresAreForgotten: a dial that fails when its caller has gone is nothing that a later
// caller hears of.
func TestLateFailuresAreForgotten(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	begun, away, failed := make(chan struct{}, 4), make(chan struct{}), make(chan struct{}, 4)
	var back atomic.Bool
	c := opened(t, Options{Settings: settings(server.Address()), PoolSize: 4, DialTimeout: time.Minute, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if !back.Load() {
			begun <- struct{}{}
			<-away
			defer func() { failed <- struct{}{} }()
			return nil, errors.New("away")
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}})
	ctx, goAway := context.WithCancel(t.Context())
	defer goAway()
	var gone sync.WaitGroup
	for range cap(failed) {
		gone.Go(func() { _ = c.Get(ctx, "x").Err() })
	}
	for range cap(failed) { // each has its dial before it goes
		<-begun
	}
	goAway()
	gone.Wait()
	close(away)
	for range cap(failed) {
		<-failed
	}
	kept := func() bool { return c.PoolStats().TotalConns >= uint32(cap(failed)) }
	for deadline := time.Now().Add(patience); !kept() && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	if !kept() {
		t.Fatal("the library keeps no failed connection any more: this test says nothing")
	}
	back.Store(true)
	for range 2 * cap(failed) {
		if err := c.Get(t.Context(), "x").Err(); !errors.Is(err, redis.Nil) {
			t.Fatalf("a caller hears of another one's failure: %v", err)
		}
	}
}

// TestNothingWasSent: the error of a server that refuses connections says that nothing was sent.
func TestNothingWasSent(t *testing.T) {
	t.Parallel()
	lis, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = lis.Close()
	c := opened(t, Options{Settings: settings(lis.Addr().String())})
	err = c.Set(t.Context(), "x", "y", 0).Err()
	if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "dial" {
		t.Errorf("the error is %v", err)
	}
}

// TestServerIsBack: no matter how many attempts have failed, the next call tries again, and
// nothing keeps trying in the background.
func TestServerIsBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	away := errors.New("away")
	var back atomic.Bool
	var dials atomic.Int32
	c := opened(t, Options{Settings: settings(server.Address()), PoolSize: 2, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		if !back.Load() {
			return nil, away
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}})
	const calls = 10
	for range calls {
		if err := c.Get(t.Context(), "x").Err(); !errors.Is(err, away) {
			t.Fatal(err)
		}
	}
	if n := dials.Load(); n != calls {
		t.Errorf("%d dials for %d calls", n, calls)
	}
	back.Store(true)
	if err := c.Get(t.Context(), "x").Err(); !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
}
