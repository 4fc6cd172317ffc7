package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/cli/clitest"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/nodes/nodestest"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

const adminSecret = "a-secret-of-administrators"

// calm serves the conditions of a control plane in order. A caller that already has their
// mark waits for as long as it asks.
func calm(w http.ResponseWriter, r *http.Request) {
	report := health.Report{Answer: health.Answer{Message: health.Ready, Conditions: []health.Condition{{Name: "store", State: health.OK}}}, Mark: "m.1"}
	if wait, err := time.ParseDuration(r.URL.Query().Get("wait")); err == nil && r.URL.Query().Get("since") == report.Mark {
		select {
		case <-time.After(wait):
		case <-r.Context().Done():
		}
	}
	_ = json.NewEncoder(w).Encode(report)
}

// serveNodes serves nodes on both APIs, the administration API with a token.
func serveNodes(t *testing.T, known *nodestest.Nodes) (admin, mesh string) {
	t.Helper()
	s := memstore.New()
	t.Cleanup(func() { _ = s.Close() })
	a := httptest.NewServer(gatewayapi.New(gatewayapi.Options{Store: s, Nodes: known, Conditions: calm, Token: adminSecret, Log: slog.New(slog.DiscardHandler), Now: time.Now}).Handler())
	t.Cleanup(a.Close)
	m := httptest.NewServer(meshapi.Handler(meshapi.Options{Nodes: known, Conditions: calm}))
	t.Cleanup(m.Close)
	return a.URL, m.URL
}

const table = `WRONG                  SINCE                 WHOM           WHY
refused                2026-03-01T12:03:00Z  default.web    signing key 3 is gone
refuses configuration  revision 60           default.api    Listener inbound:127.0.0.2:80: cannot bind '127.0.0.2:80': Permission denied
away                   -                     default.never  it was never connected

NAME             TYPE     STATE      SINCE                 DESIRED  ACKNOWLEDGED  REJECTED  ENVOY   CERTIFICATE           TOKEN                 REASON
cp/default/gw-1  gateway  connected  2026-03-01T12:01:00Z  67       67            0         1.39.3  2026-03-01T12:30:00Z  2026-03-01T12:50:00Z  -
default.api      sidecar  connected  2026-03-01T12:02:00Z  67       60            1         1.39.3  -                     -                     refuses Listener inbound:127.0.0.2:80: cannot bind '127.0.0.2:80': Permission denied
default.never    sidecar  away       -                     67       0             0         -       -                     -                     it was never connected
default.web      sidecar  refused    2026-03-01T12:03:00Z  67       66            0         1.39.3  -                     2026-03-01T12:50:00Z  signing key 3 is gone
4 nodes: 2 connected (1 refuse configuration, 0 are behind), 1 away, 1 away and refused
`

// TestStatus: both APIs give the same output, and a script learns the result from the exit
// code.
func TestStatus(t *testing.T) {
	known := nodestest.New()
	admin, mesh := serveNodes(t, known)
	token := clitest.TokenFile(t, adminSecret)
	for name, args := range map[string][]string{
		"administration API": {"--address", admin, token}, "mesh API": {"--address", mesh + "/"},
	} {
		got, err := clitest.Execute(t, StatusCommand(), args...)
		if diff := cmp.Diff(table, got); diff != "" || clitest.Code(err) != ExitUneven {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	got, err := clitest.Execute(t, StatusCommand(), "--address", admin, token, "-o", "json")
	if !strings.Contains(got, `"summary":{"connected":2,"away":1,"refused":1,"silent":0,"rejecting":1,"behind":0}`) || strings.Count(got, "\n") != 1 || clitest.Code(err) != ExitUneven {
		t.Errorf("%v %s", err, got)
	}
	known.Documents = known.Documents[:1]
	if got, err := clitest.Execute(t, StatusCommand(), "--address", admin, token); clitest.Code(err) != 0 || !strings.HasPrefix(got, "Nothing is wrong.\n\nNAME ") || !strings.Contains(got, "1 nodes: 1 connected") {
		t.Errorf("everybody is in step: %v %s", err, got)
	}
	known.Documents[0].InStep = false
	if _, err := clitest.Execute(t, StatusCommand(), "--address", admin, token); clitest.Code(err) != ExitUneven {
		t.Errorf("one is behind: %v", err)
	}
	known.Documents = nil
	if got, err := clitest.Execute(t, StatusCommand(), "--address", admin, token, "-o", "json"); clitest.Code(err) != 0 || !strings.HasPrefix(got, `{"nodes":[],`) {
		t.Errorf("nobody: %v %s", err, got)
	}
}

// TestStatusFails: an error has a different exit code than an absent node.
func TestStatusFails(t *testing.T) {
	admin, _ := serveNodes(t, nodestest.New())
	none := filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(none, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no token":             {[]string{"--address", admin}, "wants a token: name a file that holds it with --token-file"},
		"a wrong token":        {[]string{"--address", admin, clitest.TokenFile(t, "another-secret-of-theirs")}, "does not take the token of "},
		"nobody there":         {[]string{"--address", "http://127.0.0.1:1"}, "nobody listens at http://127.0.0.1:1: start the control plane, or correct --address"},
		"no URL":               {[]string{"--address", "127.0.0.1:8001"}, `--address "127.0.0.1:8001" is no URL`},
		"a token in clear":     {[]string{"--address", "http://cp.example", clitest.TokenFile(t, adminSecret)}, "could be overheard on the way to http://cp.example: use https:// in --address"},
		"no CA":                {[]string{"--address", "https://h", "--ca-cert-file", none + "where"}, "--ca-cert-file: open "},
		"an empty CA":          {[]string{"--address", "https://h", "--ca-cert-file", none}, "--ca-cert-file: " + none + " holds no certificate"},
		"another form":         {[]string{"-o", "yaml"}, `--output "yaml" is neither table nor json`},
		"another page":         {[]string{"--address", admin + "/x", clitest.TokenFile(t, adminSecret)}, "there is no /conditions at " + admin + "/x: correct --address"},
		"a bad configuration":  {[]string{"--config", none}, "is not valid YAML"},
		"two addresses":        {[]string{"--config", none, "--address", admin}, "--config says where the mesh API of this machine is, and --address names another one"},
		"a redirect elsewhere": {[]string{"--address", redirect(t)}, "is not a control plane, it sends callers elsewhere"},
	} {
		got, err := clitest.Execute(t, StatusCommand(), tc.args...)
		if clitest.Code(err) != cli.ExitFailed || err == nil || !strings.Contains(err.Error(), tc.want) || got != "" {
			t.Errorf("%s: %v, %q", name, err, got)
		}
	}
}

// TestStatusNamesConfig: if nobody answers where the settings say, the error mentions
// --config and --address.
func TestStatusNamesConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte("mesh: {port: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MESHGATE_MESH_PORT", "1")
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"by itself": {nil, "nobody listens at http://127.0.0.1:1 (mesh.listen and mesh.port of the settings): start the control plane, or say where it is: with --config, the file of settings that it was started with, or with --address"},
		"by a file": {[]string{"--config", file}, "start the control plane, or say where it is: give --config the file that it was started with, or --address instead"},
	} {
		_, err := clitest.Execute(t, StatusCommand(), tc.args...)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// redirect serves a redirect to another server.
func redirect(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound))
	t.Cleanup(s.Close)
	return s.URL
}

// TestStatusIsPlain: texts of a stranger or a proxy cannot move the cursor, and stay in one
// line.
func TestStatusIsPlain(t *testing.T) {
	known := nodestest.New()
	known.Documents = known.Documents[3:]
	known.Documents[0].Reason = "a\x1b[2Jb\nc\td\u202e"
	admin, _ := serveNodes(t, known)
	got, _ := clitest.Execute(t, StatusCommand(), "--address", admin, clitest.TokenFile(t, adminSecret))
	if strings.Count(got, "\n") != 6 || strings.Contains(got, "\x1b") || !strings.Contains(got, "a?[2Jb c d?") {
		t.Errorf("%q", got)
	}
}

// TestStatusReadsAllPages: all pages are read.
func TestStatusReadsAllPages(t *testing.T) {
	known := &nodestest.Nodes{}
	for i := range 2*nodesPage + 1 {
		known.Documents = append(known.Documents, nodes.Node{Name: fmt.Sprintf("default.web-%04d", i), Type: insight.Sidecar, State: insight.Connected, InStep: true})
	}
	admin, mesh := serveNodes(t, known)
	for _, address := range []string{admin, mesh} {
		got, err := clitest.Execute(t, StatusCommand(), "--address", address, clitest.TokenFile(t, adminSecret))
		if !strings.Contains(got, "2001 nodes: 2001 connected") || clitest.Code(err) != 0 {
			t.Errorf("%v %s", err, got[max(0, len(got)-100):])
		}
	}
}

// changing gives another mark with each answer, until a test has seen enough.
type changing struct {
	*nodestest.Nodes
	answers int
	over    context.CancelFunc
}

func (c *changing) List(q nodes.Query) nodes.Page {
	p := c.Nodes.List(q)
	if c.answers++; c.answers%2 == 0 {
		p.Nodes = p.Nodes[:1]
	}
	p.Mark = strings.Repeat("x", min(c.answers, 3))
	if c.answers > 4 {
		c.over()
	}
	return p
}

// TestStatusWatches: a watch prints each change once, waits with the mark that it has, and
// ends with the verdict of the last answer.
func TestStatusWatches(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	known := &changing{Nodes: nodestest.New(), over: cancel}
	server := httptest.NewServer(meshapi.Handler(meshapi.Options{Nodes: known, Conditions: calm}))
	defer server.Close()
	c := StatusCommand()
	var out strings.Builder
	c.SetOut(&out)
	c.SetArgs([]string{"--watch", "--address", server.URL})
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.ExecuteContext(ctx)
	if n := strings.Count(out.String(), "NAME "); n != 3 || clitest.Code(err) != ExitUneven {
		t.Errorf("%v, %d tables:\n%s", err, n, out.String())
	}
	if diff := cmp.Diff([]string{"x", "xx", "xxx"}, known.Awaited[:3]); diff != "" {
		t.Error(diff)
	}
}

// TestWatchGoesOn: each failed question is reported, and so is the next answer, even if
// nothing has changed.
func TestWatchGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		failures := 0
		told := make(chan news)
		go follow(ctx, func(ctx context.Context, mark string) news {
			switch failures++; {
			case failures < 3:
				return news{err: errors.New("away"), mark: mark}
			case mark == "":
				return news{mark: "m"}
			}
			<-ctx.Done() // nothing new
			return news{err: ctx.Err()}
		}, "m", told)
		begin := time.Now()
		for i, want := range []string{"away", "away", ""} {
			n := <-told
			if n.err != nil && n.err.Error() != want || n.err == nil && want != "" || time.Since(begin) != time.Duration(i)*statusPause {
				t.Errorf("%d: %v after %s", i, n.err, time.Since(begin))
			}
		}
	})
}

// TestWatchSaysOnceThatNobodyAnswers: if a control plane ends while it is watched, one line
// says so.
func TestWatchSaysOnceThatNobodyAnswers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := httptest.NewServer(meshapi.Handler(meshapi.Options{Nodes: nodestest.New(), Conditions: calm}))
	defer server.Close()
	c := StatusCommand()
	out := &seen{on: map[string]func(){
		"nodes: ":         func() { _ = server.Config.Close() },
		"nobody listens ": func() { time.AfterFunc(2*statusPause+statusPause/2, cancel) },
	}}
	c.SetOut(out)
	c.SetArgs([]string{"-w", "--address", server.URL})
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.ExecuteContext(ctx)
	if n := strings.Count(out.String(), "nobody listens at"); n != 1 || clitest.Code(err) != ExitUneven {
		t.Errorf("%v, %d times:\n%s", err, n, out)
	}
}

// seen runs a function when a text is printed for the first time.
type seen struct {
	strings.Builder
	on map[string]func()
}

func (s *seen) Write(p []byte) (int, error) {
	for text, do := range s.on {
		if strings.Contains(string(p), text) {
			delete(s.on, text)
			do()
		}
	}
	return s.Builder.Write(p)
}
