package embedded

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, o Options) (*Server, *redis.Client) {
	t.Helper()
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, client(t, s.URL())
}

func client(t *testing.T, url string) *redis.Client {
	t.Helper()
	u, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	u.MaxRetries = -1
	c := redis.NewClient(u)
	t.Cleanup(func() { c.Close() })
	return c
}

func TestTakesNextFreePortAndWantsPassword(t *testing.T) {
	a, _ := start(t, Options{})
	b, c := start(t, Options{})
	if a.Address() == b.Address() || a.URL() == b.URL() {
		t.Fatalf("both at %s", a.Address())
	}
	if err := c.Ping(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	anonymous := redis.NewClient(&redis.Options{Addr: a.Address()})
	defer anonymous.Close()
	if err := anonymous.Ping(context.Background()).Err(); err == nil {
		t.Fatal("served without a password")
	}
}

func TestBoundDropsRecordsBeforeTombstones(t *testing.T) {
	guarded := 0
	s, c := start(t, Options{MaxKeys: 2, Guarded: func() { guarded++ }})
	later := time.Now().Add(time.Hour).UnixMilli()
	put := func(key string, expires int64, guard bool) {
		s.Track(key, expires, guard)
		if err := c.Set(context.Background(), key, "x", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	put("tombstone", later, true)
	put("record", later+1, false)
	put("tombstone2", 0, true)
	if n := has(c, "record"); n || guarded != 0 {
		t.Fatalf("record exists %v, guarded %d", n, guarded)
	}
	put("record2", later, false)
	if n := has(c, "tombstone"); n || guarded != 1 || s.Len() != 2 {
		t.Fatalf("tombstone exists %v, guarded %d, len %d", n, guarded, s.Len())
	}
}

func TestExpiredKeysGo(t *testing.T) {
	s, c := start(t, Options{})
	if err := c.Set(context.Background(), "k", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Track("k", 1, false)
	s.sweep()
	if n := has(c, "k"); n || s.Len() != 0 {
		t.Fatalf("key exists %v, len %d", n, s.Len())
	}
}

func has(c *redis.Client, key string) bool { return c.Get(context.Background(), key).Err() == nil }

// What the control plane's own client does: it names the server, and watches a
// subscription whose loss is an event.
func TestWatchedByItsSubscription(t *testing.T) {
	s, c := start(t, Options{})
	ctx := context.Background()
	if info := c.Info(ctx, "server").Val(); !strings.Contains(info, "run_id:") || !strings.Contains(info, "role:master") {
		t.Errorf("info %q", info)
	}
	sub := c.Subscribe(ctx, "watched")
	defer sub.Close()
	if m, err := sub.Receive(ctx); err != nil {
		t.Fatalf("%v %v", m, err)
	}
	if err := sub.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	m, err := sub.Receive(ctx)
	if _, ok := m.(*redis.Pong); !ok {
		t.Fatalf("%v %v", m, err)
	}
	s.conns.close()
	if _, err := sub.ReceiveTimeout(ctx, 30*time.Second); err == nil {
		t.Error("the loss of the connection is not seen")
	}
}
