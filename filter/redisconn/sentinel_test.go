package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

// sentinel runs a sentinel that names a port of this host as the primary, or knows no
// primary.
func sentinel(t *testing.T, port string) (address string) {
	return respond(t, func(question string) string {
		switch {
		case strings.Contains(strings.ToLower(question), "hello"):
			return "-ERR unknown command\r\n"
		case port == "":
			return "*-1\r\n"
		}
		return fmt.Sprintf("*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n", len(port), port)
	})
}

// silentListener accepts connections and never answers.
func silentListener(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func TestSentinelsVote(t *testing.T) {
	t.Parallel()
	const right, wrong = "7001", "7002" // nothing dials them
	for name, tc := range map[string]struct {
		sentinels []string
		want      string
		slow      bool // it waits for the silent ones
	}{
		"one":                 {[]string{sentinel(t, right)}, right, false},
		"one is cut off":      {[]string{sentinel(t, wrong), sentinel(t, right), sentinel(t, right)}, right, false},
		"one is silent":       {[]string{silentListener(t), sentinel(t, right), sentinel(t, right)}, right, false},
		"one is gone":         {[]string{"127.0.0.1:1", sentinel(t, right), sentinel(t, right)}, right, false},
		"two are silent":      {[]string{silentListener(t), silentListener(t), sentinel(t, right)}, right, true},
		"one knows it not":    {[]string{sentinel(t, ""), sentinel(t, right), sentinel(t, right)}, right, false},
		"nobody knows it":     {[]string{sentinel(t, ""), sentinel(t, "")}, "", false},
		"nobody says a port":  {[]string{sentinel(t, "http")}, "", false},
		"nobody answers":      {[]string{silentListener(t), silentListener(t)}, "", true},
		"only gone and wrong": {[]string{"127.0.0.1:1", sentinel(t, "0")}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := patience
			if tc.slow { // the others have as long to answer, also on a busy machine
				timeout = 5 * time.Second
			}
			target, err := parse("redis+sentinel://" + strings.Join(tc.sentinels, ",") + "/m")
			if err != nil {
				t.Fatal(err)
			}
			s := &sentinels{target: target, dial: limited((&net.Dialer{}).DialContext, nil), timeout: timeout}
			began := time.Now()
			got, err := s.primary(t.Context())
			if _, port, _ := net.SplitHostPort(got); port != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("%q %v", got, err)
			}
			if !tc.slow && time.Since(began) > timeout/2 {
				t.Error("waited for nothing")
			}
		})
	}
}

// TestSentinelNamesReplica: only a primary is used. The hook sees servers but never
// sentinels.
func TestSentinelNamesReplica(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	replica := redistest.Start(t, "--replicaof", "127.0.0.1 "+server.Port)
	var named atomic.Value
	named.Store(replica.Port)
	address := respond(t, func(question string) string {
		if strings.Contains(strings.ToLower(question), "hello") {
			return "-ERR unknown command\r\n"
		}
		return fmt.Sprintf("*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n", len(named.Load().(string)), named.Load())
	})
	hooks := 0
	c := opened(t, Options{Settings: settings("redis+sentinel://" + address + "/m"), PoolSize: 1, OnConnect: func(_ context.Context, info func() (Server, error)) error {
		hooks++
		s, err := info()
		if err == nil && s.Role != rolePrimary {
			t.Errorf("asked about a %q", s.Role)
		}
		return err
	}})
	if err := c.Get(t.Context(), "x").Err(); !errors.Is(err, errNotPrimary) {
		t.Fatal(err)
	}
	named.Store(server.Port)
	if err := c.Get(t.Context(), "x").Err(); !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	if hooks != 1 {
		t.Errorf("%d hooks", hooks)
	}
}
