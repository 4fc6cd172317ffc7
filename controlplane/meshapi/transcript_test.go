package meshapi

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/e2e/golden"
	"github.com/meshgate/meshgate/xds/policy/meshtokenauth"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
)

// TestTranscripts replays the conversations in testdata. Each file consists of exchanges: a
// line "> METHOD target", headers of the request, and an empty line and a body if there is
// one; then "< status", headers and body of the response. Lines with # are remarks, and
// "! connect" connects a node. Headers that every response has are left out.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var change []func(*Options)
			switch filepath.Base(file) {
			case "dryrun.txt":
				change = append(change, planned)
			case "selected.txt":
				change = append(change, func(o *Options) { o.Kinds = append(o.Kinds, meshtokenauth.Kind) })
			}
			got := replay(t, newAPI(t, change...), string(raw))
			golden.Compare(t, file, []byte(got))
		})
	}
}

// planned adds kinds of policies that are planned.
func planned(o *Options) { o.Kinds = append(o.Kinds, trafficroute.Kind, trafficpermission.Kind) }

// replay sends the requests of a transcript, and returns it with the actual responses.
func replay(t *testing.T, a *api, script string) string {
	var out strings.Builder
	var asked []string
	inRequest := false
	flush := func() {
		if len(asked) > 0 {
			text := strings.TrimSpace(strings.Join(asked, "\n"))
			fmt.Fprintf(&out, "%s\n%s\n", text, exchange(t, a.handler, strings.TrimPrefix(text, "> ")))
		}
		asked, inRequest = nil, false
	}
	for line := range strings.SplitSeq(script, "\n") {
		switch {
		case strings.HasPrefix(line, "#"):
			flush()
			out.WriteString(line + "\n")
		case strings.HasPrefix(line, "! connect "):
			flush()
			out.WriteString(line + "\n")
			a.rig.Connect(t, strings.TrimPrefix(line, "! connect "))
			a.rig.Settle(t)
		case strings.HasPrefix(line, "> "):
			flush()
			asked, inRequest = append(asked, line), true
		case strings.HasPrefix(line, "< "):
			inRequest = false
		case inRequest:
			asked = append(asked, line)
		}
	}
	flush()
	return strings.TrimSpace(out.String()) + "\n"
}

// exchange sends one request and describes the response.
func exchange(t *testing.T, h http.Handler, asked string) string {
	head, body, _ := strings.Cut(asked, "\n\n")
	lines := strings.Split(head, "\n")
	method, target, _ := strings.Cut(lines[0], " ")
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	r.Host = "localhost:5681"
	u, err := r.URL.Parse("http://localhost:5681" + target)
	if err != nil {
		t.Fatal(err)
	}
	r.URL = u
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ":")
		r.Header.Set(name, strings.TrimSpace(value))
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	contractOf(t).Conforms(t, r, body, loose(r, body), rec)
	var b strings.Builder
	fmt.Fprintf(&b, "< %d\n", rec.Code)
	for _, name := range slices.Sorted(maps.Keys(rec.Header())) {
		if !slices.Contains([]string{"Content-Length", "X-Content-Type-Options", "Cache-Control"}, name) {
			fmt.Fprintf(&b, "%s: %s\n", name, rec.Header().Get(name))
		}
	}
	if rec.Body.Len() > 0 {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(rec.Body.String()))
	}
	return b.String()
}
