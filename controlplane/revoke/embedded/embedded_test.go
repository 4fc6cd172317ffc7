package embedded

import (
	"context"
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
	u, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(u)
	t.Cleanup(func() { c.Close() })
	return s, c
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
	if n := c.Exists(context.Background(), "record").Val(); n != 0 || guarded != 0 {
		t.Fatalf("record exists %d, guarded %d", n, guarded)
	}
	put("record2", later, false)
	if n := c.Exists(context.Background(), "tombstone").Val(); n != 0 || guarded != 1 || s.Len() != 2 {
		t.Fatalf("tombstone exists %d, guarded %d, len %d", n, guarded, s.Len())
	}
}

func TestExpiredKeysGo(t *testing.T) {
	s, c := start(t, Options{})
	if err := c.Set(context.Background(), "k", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Track("k", 1, false)
	s.sweep()
	if n := c.Exists(context.Background(), "k").Val(); n != 0 || s.Len() != 0 {
		t.Fatalf("key exists %d, len %d", n, s.Len())
	}
}
