package assembly

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/steady"
)

// Filters never get a credential that can write. They get an external Redis only if
// redis.nodeURL is set, and one warning says if it is not. The embedded Redis has a password
// for reading, which only filters of this host get.
func TestProxiesGetNoWritingCredential(t *testing.T) {
	for _, tc := range []struct {
		name, url, nodeURL string
		local              bool
		want               string
		warned, outlives   bool
	}{
		{"external, one user", "redis://writer:pw@r:1", "", true, "", true, false},
		{"external, two users", "redis://writer:pw@r:1", "redis://reader:pw@r:1", false, "redis://reader:pw@r:1", false, true},
		{"embedded, this host", "", "", true, "redis://:", false, false},
		{"embedded, another host", "", "", false, "", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			c := &config.Config{}
			c.Redis.URL, c.Redis.NodeURL = tc.url, tc.nodeURL
			p, err := openRedis(c, time.Now, slog.New(slog.NewTextHandler(&out, nil)))
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			got := ""
			if s := p.forNodes(tc.local); s != nil {
				got = s.URL
			}
			if !strings.HasPrefix(got, tc.want) || (tc.want == "") != (got == "") || got == p.url || strings.Contains(got, "writer") {
				t.Errorf("told %q, the control plane uses %q", got, p.url)
			}
			if p.outlives() != tc.outlives {
				t.Errorf("what proxies read outlives the control plane: %t", p.outlives())
			}
			if lines := strings.Count(out.String(), "redis.nodeURL is not set"); lines != map[bool]int{true: 1}[tc.warned] {
				t.Errorf("said %d times: %s", lines, out.String())
			}
		})
	}
}

// TestNodeURLIsTriedOut: proxies could only log that they cannot use their URL, so a wrong
// one is refused at start. The error does not contain the password.
func TestNodeURLIsTriedOut(t *testing.T) {
	for _, url := range []string{"http://reader:pa55word@r:1", "redis+sentinel://reader:pa55word@r:1", "redis+cluster://reader:pa55word@r:1/3"} {
		c := &config.Config{}
		c.Redis.URL, c.Redis.NodeURL = "redis://r:1", url
		p, err := openRedis(c, time.Now, slog.New(slog.DiscardHandler))
		if err == nil {
			p.close()
			t.Errorf("%s: taken", url)
		} else if !strings.HasPrefix(err.Error(), "redis.nodeURL: ") || strings.Contains(err.Error(), "pa55word") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestEmbeddedRedisKeepsWhatHasNotEnded: a clock that is set ahead for a moment does not
// empty the cache. Keys that have ended by every clock are dropped in the same sweep.
func TestEmbeddedRedisKeepsWhatHasNotEnded(t *testing.T) {
	for _, naive := range []bool{false, true} {
		var ahead atomic.Int64
		base := time.Now()
		wall := steady.New(func() (time.Time, time.Duration) {
			return time.Now().Add(time.Duration(ahead.Load())), time.Since(base)
		})
		swept := make(chan struct{}, 16)
		p, err := openRedis(&config.Config{}, func() time.Time {
			if ahead.Load() > 0 {
				swept <- struct{}{}
			}
			if naive {
				return wall.Now()
			}
			return wall.Earliest()
		}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer p.close()
		p.embedded.Track("record", base.Add(time.Hour).UnixMilli(), false)
		p.embedded.Track("tombstone", base.Add(2*time.Hour).UnixMilli(), true)
		ahead.Store(int64(48 * time.Hour))
		p.embedded.Track("ended", 1, false) // this wakes the sweep, which may be at work for the others
		for first := true; first || p.embedded.Len() == 3; first = false {
			select {
			case <-swept: // at least this sweep is complete before keys are counted
			case <-time.After(conditionPatience):
				t.Fatal("it goes by another clock")
			}
		}
		if n := p.embedded.Len(); (n == 2) == naive {
			t.Errorf("at its word %v: %d keys are left", naive, n)
		}
	}
}
