package declare

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/cli/clitest"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a gateway with its real administration API.
type rig struct {
	t     testing.TB
	store store.Store
	url   string
	// cloud is the name of the control plane, if that is one in the cloud.
	cloud string
	// command, if set, is the next one to run.
	command *cobra.Command
	// before, if set, may answer a request in place of the API.
	before func(w http.ResponseWriter, r *http.Request) bool
	mu     sync.Mutex
	// writes are the requests that would change something.
	writes []string
}

// newRig starts an API whose paths begin with base.
func newRig(t testing.TB, base string, adjust ...func(*gatewayapi.Options)) *rig {
	t.Helper()
	s := memstore.New()
	r := &rig{t: t, store: s}
	o := gatewayapi.Options{
		Store: s, Gate: admit.New(s, &admittest.Revoker{}, gateway.Kinds(), time.Now), Collections: gatewayapi.Collections(),
		Log: slog.New(slog.DiscardHandler), Now: time.Now, Version: "test",
	}
	for _, a := range adjust {
		a(&o)
	}
	api := http.StripPrefix(base, gatewayapi.New(o).Handler())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method != http.MethodGet {
			r.mu.Lock()
			r.writes = append(r.writes, q.Method+" "+q.URL.Path)
			r.mu.Unlock()
		}
		if r.before == nil || !r.before(w, q) {
			api.ServeHTTP(w, q)
		}
	}))
	r.url = server.URL
	t.Cleanup(func() {
		server.Close()
		if err := s.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return r
}

// run executes a command of the tool on the gateway.
func (r *rig) run(t *testing.T, args ...string) (string, int) {
	t.Helper()
	c := r.command
	if r.command = nil; c == nil {
		c = GatewayCommand()
	}
	where := []string{"--gateway-addr", r.url}
	if r.cloud != "" {
		where = []string{"--cloud-addr", r.url, "--cloud-control-plane-name", r.cloud}
	}
	out, err := clitest.Execute(t, c, append(where, args...)...)
	if err != nil {
		out += err.Error()
	}
	return out, clitest.Code(err)
}

// must executes a command that succeeds.
func (r *rig) must(t *testing.T, args ...string) string {
	t.Helper()
	out, code := r.run(t, args...)
	if code != 0 {
		t.Fatalf("%v: exit code %d\n%s", args, code, out)
	}
	return out
}

// api sends a request past the tool.
func (r *rig) api(t *testing.T, method, path, body string, status int) string {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	var text strings.Builder
	if err := a.Write(&text); err != nil || a.StatusCode != status {
		t.Fatalf("%s %s: %v %s", method, path, err, text.String())
	}
	_, content, _ := strings.Cut(text.String(), "\r\n\r\n")
	return content
}

// file writes a file, with its version.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "gateway.yaml")
	if !strings.Contains(text, "_format_version") {
		text = "_format_version: \"3.0\"\n" + text
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

var uuidForm = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// uuids replaces ids, which are new in each run.
func uuids(text string) string { return uuidForm.ReplaceAllString(text, "<id>") }

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
