package assembly

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/config"
)

// Filters never get a credential that writes: an external Redis is handed out by
// redis.nodeURL alone, and its absence is said once. The embedded one has a
// password that reads, and is told to filters of this host only.
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
			p, err := openRedis(c, slog.New(slog.NewTextHandler(&out, nil)))
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

// TestNodeURLIsTriedOut: proxies could only log that they cannot use what they are
// told, so it is refused at start; without its password.
func TestNodeURLIsTriedOut(t *testing.T) {
	for _, url := range []string{"http://reader:pa55word@r:1", "redis+sentinel://reader:pa55word@r:1", "redis+cluster://reader:pa55word@r:1/3"} {
		c := &config.Config{}
		c.Redis.URL, c.Redis.NodeURL = "redis://r:1", url
		p, err := openRedis(c, slog.New(slog.DiscardHandler))
		if err == nil {
			p.close()
			t.Errorf("%s: taken", url)
		} else if !strings.HasPrefix(err.Error(), "redis.nodeURL: ") || strings.Contains(err.Error(), "pa55word") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
