package gatewayapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
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

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/dryrun/dryruntest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/nodes/nodestest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/e2e/golden"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// revoker is a revoker that can fail.
type revoker struct {
	admittest.Revoker
	mu   sync.Mutex
	fail error
}

func newRevoker() *revoker {
	r := &revoker{}
	r.OnPublish = func(context.Context, store.Commit) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.fail
	}
	r.OnSettle = func(ctx context.Context, _ ...string) error { return r.OnPublish(ctx, store.Commit{}) }
	return r
}

func (r *revoker) set(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail = err
}

type progress struct{}

// Wait implements gatewayapi.Progress.
func (progress) Wait(_ context.Context, revision uint64, _ func(mesh, controlPlane string) bool) (any, error) {
	if revision > 1000 {
		return nil, fault.New(fault.NotFound, "Revision %d does not exist: the newest is 67", revision)
	}
	return map[string]any{"revision": revision}, nil
}

type fixture struct {
	t       testing.TB
	api     *gatewayapi.API
	handler http.Handler
	revoker *revoker
	store   store.Store
	// rig is there where dry runs are.
	rig *dryruntest.Rig
}

var epoch = time.Unix(1700000000, 0)

func setup(t testing.TB, guard *httpkit.BrowserGuard) *fixture {
	t.Helper()
	return setupWith(t, func(o *gatewayapi.Options) { o.Guard = guard })
}

// setupWith returns an API over a store in memory; adjust changes its options.
func setupWith(t testing.TB, adjust func(*gatewayapi.Options)) *fixture {
	t.Helper()
	s := memstore.Open(memstore.Options{Now: func() time.Time { return epoch }})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	now := func() time.Time { return epoch }
	r := newRevoker()
	o := gatewayapi.Options{
		Store: s, Gate: admit.New(s, r, gateway.Kinds(), now), Collections: gatewayapi.Collections(),
		Progress: progress{}, Log: slog.New(slog.DiscardHandler), Now: now, Version: "test",
	}
	adjust(&o)
	api := gatewayapi.New(o)
	h := httpkit.Observe(http.MaxBytesHandler(api.Handler(), 1<<20), slog.New(slog.DiscardHandler))
	rig, _ := o.DryRun.(*dryruntest.Rig)
	return &fixture{t: t, api: api, handler: h, revoker: r, store: s, rig: rig}
}

// do sends a request; body is JSON if it starts with a brace, and a form otherwise. The
// answer must conform to the OpenAPI document.
func (f *fixture) do(method, target, body string) *httptest.ResponseRecorder {
	f.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if strings.HasPrefix(body, "{") {
		r.Header.Set("Content-Type", "application/json")
	} else if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return f.serve(r)
}

func (f *fixture) serve(r *http.Request) *httptest.ResponseRecorder {
	f.t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	// Forms have no types, unknown members are not in the document, and the body of a PUT
	// need not repeat its path.
	loose := r.Method == http.MethodPut || r.Header.Get("Content-Type") != "application/json" || r.URL.Query().Has(httpkit.ArgFieldValidation)
	described := r.Clone(r.Context()) // the document has no path twice
	described.URL.Path = "/" + strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/default"), "/")
	contractOf(f.t, f.api).Conforms(f.t, described, string(body), loose, w)
	return w
}

var (
	uuids   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	randoms = regexp.MustCompile(`"[A-Za-z0-9]{32}"`)
	updated = regexp.MustCompile(`"updated_at":[0-9]+`)
	offsets = regexp.MustCompile(`(offset=|"offset":")[A-Za-z0-9_-]{32,}`)
	hashes  = regexp.MustCompile(`\$pbkdf2-sha512\$[^"]+`)
)

// scriptOptions are the options with which scripts run.
var scriptOptions = map[string]func(*gatewayapi.Options){
	"changes.script":   func(*gatewayapi.Options) {},
	"consumers.script": func(*gatewayapi.Options) {},
	"dryrun.script":    func(*gatewayapi.Options) {},
	"explain.script":   func(o *gatewayapi.Options) { o.Explain = noGateways() },
	"keys.script":      func(*gatewayapi.Options) {},
	"nodes.script": func(o *gatewayapi.Options) {
		o.Nodes, o.Dumps, o.Conditions = nodestest.New(), nodestest.Dumps{}, conditions
	},
	"oauth2.script":    func(*gatewayapi.Options) {},
	"readonly.script":  func(o *gatewayapi.Options) { o.ReadOnly = "entities come from a file" },
	"revoke.script":    func(o *gatewayapi.Options) { o.Revocations = &revocations{store: o.Store, gate: o.Gate} },
	"routing.script":   func(*gatewayapi.Options) {},
	"schemas.script":   func(*gatewayapi.Options) {},
	"upstreams.script": func(*gatewayapi.Options) {},
	"strict.script":    func(*gatewayapi.Options) {},
	"tags.script":      func(*gatewayapi.Options) {},
	"tool.script":      func(*gatewayapi.Options) {},
}

// TestTranscripts runs the scripts in testdata. They consist of lines "METHOD path [body]";
// the golden file has the answer after each. {name} is replaced by the id in the answer to
// the last line that began with "name=", <cert> and <key> by a certificate and its key. A line
// "connect node" connects a gateway.
func TestTranscripts(t *testing.T) {
	scripts, err := filepath.Glob("testdata/*.script")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("scripts: %v %v", scripts, err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".script"), func(t *testing.T) {
			lines, err := os.ReadFile(script)
			if err != nil {
				t.Fatal(err)
			}
			got := transcript(t, setupWith(t, func(o *gatewayapi.Options) {
				o.DryRun = dryruntest.New(t, o.Store)
				scriptOptions[filepath.Base(script)](o)
			}), string(lines))
			golden.Compare(t, strings.TrimSuffix(script, ".script")+".golden", []byte(got))
		})
	}
}

func transcript(t *testing.T, f *fixture, script string) string {
	t.Helper()
	var out strings.Builder
	ids := map[string]string{}
	if strings.Contains(script, "<cert>") {
		cert, key := admittest.Certificate(t)
		ids["cert"], ids["key"] = strings.ReplaceAll(cert, "\n", `\n`), strings.ReplaceAll(key, "\n", `\n`)
	}
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			fmt.Fprintln(&out, line)
			continue
		}
		fmt.Fprintln(&out, "> "+line)
		name, rest, named := strings.Cut(line, "=")
		if !named || strings.ContainsAny(name, " /") {
			name, rest = "", line
		}
		for n, id := range ids {
			rest = strings.ReplaceAll(rest, "<"+n+">", id)
		}
		if node, ok := strings.CutPrefix(line, "connect "); ok {
			f.rig.Connect(t, node)
			f.rig.Settle(t)
			continue
		}
		parts := append(strings.SplitN(rest, " ", 3), "", "")
		w := f.do(parts[0], parts[1], parts[2])
		body := w.Body.String()
		if id := uuids.FindString(regexp.MustCompile(`"id":"[^"]+","`).FindString(lastID(body))); name != "" {
			ids[name] = id
		}
		for n, id := range ids {
			body = strings.ReplaceAll(body, id, "<"+n+">")
		}
		body = uuids.ReplaceAllString(body, "<uuid>")
		body = offsets.ReplaceAllString(body, "$1<offset>")
		body = randoms.ReplaceAllString(body, `"<random>"`)
		body = updated.ReplaceAllString(body, `"updated_at":"<time>"`)
		body = hashes.ReplaceAllString(body, "<hash>")
		rev := ""
		if w.Header().Get(gatewayapi.HeaderRevision) != "" {
			rev = " revision"
		}
		fmt.Fprintf(&out, "< %d%s%s %s\n", w.Code, rev, allow(w), body)
	}
	return out.String()
}

// lastID removes references, which are objects, so that only the entity's own id is left.
func lastID(body string) string {
	return regexp.MustCompile(`:\{"id":"[^"]+"\}`).ReplaceAllString(body, `:null`)
}

// allow shows the relevant headers of an answer.
func allow(w *httptest.ResponseRecorder) string {
	if n := len(w.Header().Values("Warning")); n > 0 {
		return fmt.Sprintf(" [%d warnings]", n)
	}
	if a := w.Header().Get("Allow"); a != "" {
		return " [" + a + "]"
	}
	return ""
}

func TestRevocationThatCannotBeClaimedAnswers503(t *testing.T) {
	f := setup(t, nil)
	f.do("POST", "/consumers", "username=bob")
	f.revoker.set(fault.New(fault.Unavailable, "the token may still be accepted"))
	w := f.do("DELETE", "/consumers/bob", "")
	if got, want := w.Body.String(), `{"message":"the token may still be accepted"}`; w.Code != 503 || got != want {
		t.Errorf("got %d %s, want 503 %s", w.Code, got, want)
	}
	if w.Header().Get(gatewayapi.HeaderRevision) == "" {
		t.Error("the commit stands, but its revision is not shown")
	}
	if w := f.do("GET", "/consumers/bob", ""); w.Code != 404 {
		t.Errorf("after the commit the consumer answers %d", w.Code)
	}
	if w := f.do("DELETE", "/consumers/bob", ""); w.Code != 503 {
		t.Errorf("while the revocation is unconfirmed a second deletion answers %d", w.Code)
	}
	f.revoker.set(nil)
	if w := f.do("DELETE", "/consumers/bob", ""); w.Code != 204 {
		t.Errorf("after it was confirmed a further deletion answers %d", w.Code)
	}
}

func TestUnexpectedFailureShowsNothing(t *testing.T) {
	f := setup(t, nil)
	f.revoker.set(io.ErrUnexpectedEOF)
	w := f.do("POST", "/consumers", "username=bob")
	if got, want := w.Body.String(), `{"message":"An unexpected error occurred"}`; w.Code != 500 || got != want {
		t.Errorf("got %d %s", w.Code, got)
	}
}

func TestContentTypes(t *testing.T) {
	for _, tc := range []struct {
		name   string
		types  []string
		body   string
		status int
		answer string
	}{
		{"other type", []string{"text/plain"}, "x", 415, ""},
		{"body without type", nil, "username=x", 415, ""},
		{"two types", []string{"application/json", "application/json"}, "{}", 400, `{"message":"Multiple Content-Type headers"}`},
		{"json without body", []string{"application/json"}, "", 400, `{"message":"Cannot parse JSON body"}`},
		{"invalid json", []string{"application/json"}, "{", 400, `{"message":"Cannot parse JSON body"}`},
		{"array", []string{"application/json"}, "[]", 400, `{"message":"Cannot parse JSON body"}`},
		{"too deep", []string{"application/json"}, `{"a":` + strings.Repeat("[", 5000) + `}`, 400, `{"message":"Cannot parse JSON body"}`},
		{"too many", []string{"application/x-www-form-urlencoded"}, strings.Repeat("a=1&", 1001), 400, `{"message":"Too many arguments"}`},
		{"too large", []string{"application/json"}, strings.Repeat(" ", 2<<20), 413, `{"message":"Request body too large"}`},
		{"charset", []string{"application/json; charset=utf-8"}, `{"username":"x"}`, 201, ""},
		{"multipart", []string{"multipart/form-data; boundary=b"}, "--b\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nx\r\n--b--\r\n", 201, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := setup(t, nil)
			r := httptest.NewRequest("POST", "/consumers", strings.NewReader(tc.body))
			for _, v := range tc.types {
				r.Header.Add("Content-Type", v)
			}
			w := f.serve(r)
			if w.Code != tc.status {
				t.Fatalf("status %d, want %d: %s", w.Code, tc.status, w.Body)
			}
			if got := w.Body.String(); tc.status != 201 && got != tc.answer {
				t.Errorf("answer %q, want %q", got, tc.answer)
			}
		})
	}
}

func TestGuard(t *testing.T) {
	for _, tc := range []struct {
		name, host string
		header     http.Header
		status     int
	}{
		{"plain", "127.0.0.1:8001", nil, 200},
		{"ipv6", "[::1]:8001", nil, 200},
		{"rebound name", "evil.example:8001", nil, 403},
		{"other site", "localhost:8001", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"other port of this machine", "localhost:8001", http.Header{"Sec-Fetch-Site": {"same-site"}}, 403},
		{"typed into the address bar", "localhost:8001", http.Header{"Sec-Fetch-Site": {"none"}}, 200},
		{"foreign origin", "localhost:8001", http.Header{"Origin": {"https://evil.example"}}, 403},
		{"opaque origin", "localhost:8001", http.Header{"Origin": {"null"}}, 403},
		{"own origin", "localhost:8001", http.Header{"Origin": {"http://localhost:8001"}}, 200},
		{"listed origin", "localhost:8001", http.Header{"Origin": {"https://ui.example"}, "Sec-Fetch-Site": {"cross-site"}}, 200},
		{"forwarded", "localhost:8001", http.Header{"X-Forwarded-For": {"192.0.2.1"}}, 403},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := setup(t, &httpkit.BrowserGuard{Origins: []string{"https://ui.example"}})
			r := httptest.NewRequest("GET", "/consumers", nil)
			r.Host = tc.host
			for k, v := range tc.header {
				r.Header[k] = v
			}
			w := f.serve(r)
			if w.Code != tc.status {
				t.Errorf("status %d, want %d", w.Code, tc.status)
			}
			if o := w.Header().Get("Access-Control-Allow-Origin"); o != "" && tc.name != "listed origin" {
				t.Errorf("Access-Control-Allow-Origin %q sent", o)
			}
		})
	}
}
