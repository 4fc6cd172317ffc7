package assembly

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/cli/clitest"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/declare"
	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// clouded is a control plane with its cloud API, at an address, and the tool in front of it.
type clouded struct {
	*tried
	url, token string
}

func openClouded(t *testing.T) *clouded {
	t.Helper()
	r := &clouded{tried: openTried(t)}
	r.cfg.Cloud.Roles = config.CloudGlobal + "," + config.CloudRegional
	token, err := r.NewAccessToken(t.Context(), "tool")
	if err != nil {
		t.Fatal(err)
	}
	r.token = token
	server := httptest.NewServer(httpkit.Observe(r.cloudAPI(r.identifyCloud).Handler(), slog.New(slog.DiscardHandler)))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// tool runs the tool on a control plane in the cloud.
func (r *clouded) tool(plane string, args ...string) (string, int) {
	r.t.Helper()
	args = append(args, "--cloud-addr", r.url, "--cloud-token", r.token)
	if plane != "" {
		args = append(args, "--cloud-control-plane-name", plane)
	}
	out, err := clitest.Execute(r.t, declare.GatewayCommand(), args...)
	if err != nil {
		out += err.Error()
	}
	return out, clitest.Code(err)
}

// ask sends a request with the token of the tool.
func (r *clouded) ask(method, path, body string) (int, string) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Authorization", "Bearer "+r.token)
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer a.Body.Close()
	var text strings.Builder
	if err := a.Write(&text); err != nil {
		r.t.Fatal(err)
	}
	return a.StatusCode, text.String()
}

// file writes a file for the tool.
func (r *clouded) file(text string) string {
	r.t.Helper()
	name := filepath.Join(r.t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(name, []byte("_format_version: \"3.0\"\n"+text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	return name
}

// TestToolTriesInTheCloud: a dry run of the tool says what each write would do to a control plane in
// the cloud, and stores nothing.
func TestToolTriesInTheCloud(t *testing.T) {
	r := openClouded(t)
	if status, text := r.ask(http.MethodPost, "/v2/control-planes", `{"name":"team-a"}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	f := r.file("services:\n- name: orders\n  host: 127.0.0.1\n  routes:\n  - name: all\n    paths: [/orders]\n")
	before := r.dump()
	out, code := r.tool("team-a", "sync", f, "--dry-run")
	if code != 0 || !strings.Contains(out, "service orders") {
		t.Fatalf("%d %s", code, out)
	}
	if r.dump() != before {
		t.Error("the dry run has changed the database")
	}
	if out, code := r.tool("team-a", "sync", f); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	before = r.dump()
	if out, code := r.tool("team-a", "sync", r.file("services: []\n"), "--dry-run"); code != 0 || !strings.Contains(out, "deleting service orders") {
		t.Errorf("%d %s", code, out)
	}
	if r.dump() != before {
		t.Error("the dry run of a deletion has changed the database")
	}
}

// TestCloudRefusesParametersOfWrites: a query that a write does not have is the caller's mistake, named
// as such, on every endpoint that writes; nothing is written.
func TestCloudRefusesParametersOfWrites(t *testing.T) {
	r := openClouded(t)
	before := r.dump()
	for query, want := range map[string]string{
		"dryRun=known": `"field":"dryRun","reason":"must be true or false, and given once","rule":"is_boolean","source":"query"`,
		"dry_run=true": `"field":"dry_run","reason":"unknown parameter; did you mean \"dryRun\"?","rule":"unknown_property","source":"query"`,
		"x=%zz":        `"field":"query","reason":"the query is malformed","rule":"invalid","source":"query"`,
	} {
		for _, e := range r.cloudAPI(r.identifyCloud).Endpoints() {
			if e.Method == http.MethodGet || strings.Contains(e.Pattern, "core-entities") || strings.Contains(e.Pattern, "{entity") {
				continue
			}
			path := strings.NewReplacer("{", "", "}", "").Replace(e.Pattern)
			status, text := r.ask(e.Method, path+"?"+query, "{}")
			if status != http.StatusBadRequest || !strings.Contains(text, want) || !strings.Contains(text, `"detail":"Invalid Parameters"`) {
				t.Errorf("%s %s?%s: %d %s", e.Method, path, query, status, text)
			}
		}
	}
	status, text := r.ask(http.MethodPost, "/v2/audit-log-destinations?dryRun=true", "{}")
	if status != http.StatusBadRequest || !strings.Contains(text, fmt.Sprintf("%q:%q", "field", "dryRun")) {
		t.Errorf("%d %s", status, text)
	}
	if r.dump() != before {
		t.Error("a refused write has changed the database")
	}
}

// TestToolDumpsNoGroup: the tool says which control planes to dump instead.
func TestToolDumpsNoGroup(t *testing.T) {
	r := openClouded(t)
	made := func(body string) string {
		t.Helper()
		status, text := r.ask(http.MethodPost, "/v2/control-planes", body)
		_, rest, found := strings.Cut(text, `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		if status != http.StatusCreated || !found {
			t.Fatalf("%d %s", status, text)
		}
		return id
	}
	group, member := made(`{"name":"all","cluster_type":"CLUSTER_TYPE_CONTROL_PLANE_GROUP"}`), made(`{"name":"team-b"}`)
	if status, text := r.ask(http.MethodPost, "/v2/control-planes/"+group+"/group-memberships/add", `{"members":[{"id":"`+member+`"}]}`); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, text)
	}
	if out, code := r.tool("all", "dump"); code != 1 || !strings.Contains(out, "dump its members: 'team-b'") {
		t.Errorf("%d %s", code, out)
	}
}
