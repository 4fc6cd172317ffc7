package assembly

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/revoke"
	"github.com/meshgate/meshgate/controlplane/steady"
	"github.com/meshgate/meshgate/e2e/ports"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn"
	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

// useRedis uses a Redis as the control plane does, and returns the error.
func useRedis(t *testing.T, url string) error {
	t.Helper()
	c, err := revoke.Open(contract.RedisSettings{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	all, err := redisconn.Identify(ctx, c)
	if err != nil {
		return err
	}
	if len(all) != 1 || all[0].Ahead != 0 {
		t.Errorf("servers %+v", all)
	}
	return c.SetArgs(ctx, contract.RedisClockKey, "x", redis.SetArgs{}).Err()
}

// TestRedisTroubles: each kind of wrong Redis has its own reason and text.
func TestRedisTroubles(t *testing.T) {
	good := redistest.Start(t).Address()
	closed := redistest.Start(t, "--requirepass", "secret").Address()
	limited := redistest.Start(t)
	reader := limited.User(t, "reader", "pw", "~meshgate:*", "-@all", "+get", "+info", "+ping")
	full := redistest.Start(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction").Address()
	replica := redistest.Start(t, "--replicaof", "127.0.0.1 1").Address()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	free, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, url, reason, text string }{
		{"in order", "redis://" + good, "", ""},
		{"host:port", good, "", ""},
		{"nothing listens", fmt.Sprintf("127.0.0.1:%d", free[0]), "refused", "nothing listens there"},
		{"no such host", "redis://nowhere.invalid:6379", "unknown_host", "its name is not known"},
		{"wants a password", "redis://" + closed, "no_password", "wants a password"},
		{"wrong password", "redis://:pa55word@" + closed, "wrong_password", "refuses user and password"},
		{"may only read", "redis://" + reader + limited.Address(), "no_permission", "docs/redis.md"},
		{"full", "redis://" + full, "out_of_memory", "maxmemory"},
		{"replica", "redis://" + replica, "replica", "primary"},
		{"no Redis", strings.Replace(web.URL, "http:", "redis:", 1), "not_redis", "no Redis"},
		{"no TLS", "rediss://" + good, "timeout", "no TLS there"},
		{"does not answer", "redis://" + silent.Addr().String(), "timeout", "does not answer in time"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := useRedis(t, tc.url)
			// On a busy machine a server may answer after the timeout; then it is asked
			// again.
			for deadline := time.Now().Add(conditionPatience); tc.reason != health.Timeout && err != nil && redisTrouble(err).Reason == health.Timeout && time.Now().Before(deadline); {
				err = useRedis(t, tc.url)
			}
			if tc.reason == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatal("it works")
			}
			f := redisTrouble(err)
			if f.Reason != tc.reason || !strings.Contains(f.Text, tc.text) || !strings.Contains(f.Text, redisMeanwhile) || f.State != health.Degraded {
				t.Errorf("%v: %+v", err, f)
			}
			if strings.Contains(f.Text, "pa55word") {
				t.Error("the password is in it")
			}
		})
	}
}

// TestRedisURLMistakes: the error for a wrong URL does not contain its password.
func TestRedisURLMistakes(t *testing.T) {
	for url, want := range map[string]string{
		"redis.example":                     "without a scheme it must be host:port",
		"user:pa55word@redis.example:6379":  "user and password need redis:// before them",
		"http://:pa55word@r:1":              "the scheme is none of",
		"redis://:pa55word@r:port":          "not redis://[user:password@]host",
		"redis://:pa55word@r:1/x":           "not redis://[user:password@]host",
		"redis://:pa55word%zz@r:1":          "escaped as in a URL",
		"redis+sentinel://:pa55word@r:1":    "after the sentinels comes /master",
		"redis+cluster://:pa55word@r:1/2":   "a cluster has no databases",
		"redis+cluster://:pa55word@r:70000": "not a list of host:port",
	} {
		_, err := revoke.Open(contract.RedisSettings{URL: url})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "pa55word") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestRedisClock: a clock that is far off is a condition that names both times.
func TestRedisClock(t *testing.T) {
	cp, log := stateOf(t, t.TempDir())
	cp.ready.serving.Store(true)
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	hear := newClocks(cp.ready.conditions, steady.New(func() (time.Time, time.Duration) { return now, 0 })).redisAhead
	for _, ahead := range []time.Duration{5 * time.Second, -5 * time.Second} {
		hear(ahead)
		if _, a := readyOf(t, cp); conditionOf(a, conditionClock).State != health.OK {
			t.Errorf("%s: %+v", ahead, a)
		}
	}
	for i := range 10 {
		hear(7*time.Second + time.Duration(i)*time.Millisecond)
	}
	status, a := readyOf(t, cp)
	c := conditionOf(a, conditionClock)
	if status != http.StatusOK || c.Reason != "redis_ahead" || !strings.Contains(c.Text, "12:00:00Z") || !strings.Contains(c.Text, "12:00:07Z") {
		t.Errorf("%d %+v", status, c)
	}
	hear(-time.Hour)
	if _, a = readyOf(t, cp); conditionOf(a, conditionClock).Reason != "redis_behind" {
		t.Errorf("%+v", a)
	}
	hear(0)
	if n := strings.Count(log.String(), "condition=clock"); n != 3 {
		t.Errorf("%d lines:\n%s", n, log)
	}
}
