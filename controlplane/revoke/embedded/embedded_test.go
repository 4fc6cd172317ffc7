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
	s, c := start(t, Options{MaxKeys: 2})
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
	if has(c, "record") || !has(c, "tombstone") {
		t.Fatal("a tombstone was dropped before a record")
	}
	put("record2", later, false)
	if n := has(c, "tombstone"); n || s.Len() != 2 {
		t.Fatalf("tombstone exists %v, len %d", n, s.Len())
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

// Both roles learn the identity of the server, and readers ask only for as much of a value
// as they can use.
func TestWhoAndHowMuch(t *testing.T) {
	s, c := start(t, Options{})
	ctx := context.Background()
	if err := c.Set(ctx, "k", "0123456789", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{s.URL(), s.NodeURL()} {
		r := client(t, url)
		if info := r.Info(ctx, "server").Val(); !strings.Contains(info, "run_id:"+s.id) || !strings.Contains(info, "role:master") {
			t.Errorf("info %q", info)
		}
		for _, tt := range []struct {
			key   string
			start int64
			end   int64
			want  string
		}{{"k", 0, 3, "0123"}, {"k", 0, 9, "0123456789"}, {"k", 0, 1 << 20, "0123456789"}, {"absent", 0, 5, ""}} {
			if got, err := r.GetRange(ctx, tt.key, tt.start, tt.end).Result(); err != nil || got != tt.want {
				t.Errorf("%+v: %q %v", tt, got, err)
			}
		}
		for _, odd := range [][2]int64{{1, 2}, {0, -1}, {-3, -1}} {
			if got, err := r.GetRange(ctx, "k", odd[0], odd[1]).Result(); err == nil {
				t.Errorf("range %v is answered %q", odd, got)
			}
		}
	}
}

// TestPutIsRead: what the process writes by itself is what clients read, and is dropped like
// what they write.
func TestPutIsRead(t *testing.T) {
	s, c := start(t, Options{MaxKeys: 2})
	later := time.Now().Add(time.Hour).UnixMilli()
	for key, expires := range map[string]int64{"record": later, "tombstone": 0} {
		for _, value := range []string{"first", "second"} {
			if !s.Put(key, []byte(value), expires, expires == 0) {
				t.Fatal("no room")
			}
			if got, err := c.Get(t.Context(), key).Result(); err != nil || got != value || string(s.Value(key)) != value {
				t.Errorf("%s: %q %v, want %q", key, got, err, value)
			}
		}
	}
	s.Put("another", []byte("x"), 0, true)
	if has(c, "record") || !has(c, "tombstone") || s.Value("record") != nil || s.Len() != 2 {
		t.Errorf("a tombstone was dropped before a record; %d keys", s.Len())
	}
}
