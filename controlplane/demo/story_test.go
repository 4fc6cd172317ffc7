package demo

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world stands in for the administration API and the gateway of the demo. Tests can change
// its behaviour.
type world struct {
	deleted, keepsDeleted, forwardsSpoofed, plainTokens bool
	puts                                                []string
	progress                                            string
}

func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	answer := func(status int, format string, args ...any) {
		rw.WriteHeader(status)
		_, _ = fmt.Fprintf(rw, format, args...)
	}
	switch {
	case r.Method == http.MethodPut:
		w.puts = append(w.puts, r.URL.Path)
		rw.Header().Set("X-Mesh-Revision", fmt.Sprint(len(w.puts)))
		answer(200, `{}`)
	case strings.HasPrefix(r.URL.Path, "/revisions/"):
		answer(200, "%s", w.progress)
	case r.Method == http.MethodDelete:
		w.deleted = !w.keepsDeleted
		answer(204, "")
	case r.URL.Path == demoPath+"/oauth2/token" && r.TLS == nil && !w.plainTokens:
		answer(400, `{"error":"access_denied","error_description":"You must use HTTPS"}`)
	case r.URL.Path == demoPath+"/oauth2/token":
		answer(200, `{"access_token":"tok","expires_in":7200}`)
	case r.Header.Get("Authorization") == "":
		answer(401, `{"error_description":"The access token is missing"}`)
	case w.deleted || r.Header.Get("Authorization") != "Bearer tok":
		answer(401, `{"error_description":"The access token is invalid or has expired"}`)
	default:
		h := map[string]string{"X-Consumer-Username": demoConsumer, "X-Credential-Identifier": demoClient, "Accept": "*/*"}
		if w.forwardsSpoofed {
			h["X-Consumer-Id"] = r.Header.Get("X-Consumer-Id")
		}
		rw.WriteHeader(200)
		_ = json.NewEncoder(rw).Encode(map[string]any{"headers": h})
	}
}

// visitor returns a visitor of the world, over plain HTTP and TLS.
func (w *world) visitor(t *testing.T) *visitor {
	t.Helper()
	plain := httptest.NewServer(http.HandlerFunc(w.serve))
	secure := httptest.NewTLSServer(http.HandlerFunc(w.serve))
	c := &visitor{http: secure.Client(), admin: plain.URL, plain: plain.URL, tls: secure.URL}
	t.Cleanup(func() {
		c.http.CloseIdleConnections()
		plain.Close()
		secure.Close()
	})
	return c
}

// TestTell tells the whole story, and then one for each promise that is broken.
func TestTell(t *testing.T) {
	for _, test := range []struct {
		name  string
		world world
		want  string
	}{
		{"as promised", world{}, ""},
		{"a deleted token still works", world{keepsDeleted: true}, "the call after DELETE: observed 200"},
		{"spoofed headers come through", world{forwardsSpoofed: true}, "the upstream received the client's own X-Consumer-Id"},
		{"tokens over plain HTTP", world{plainTokens: true}, "token over HTTP: observed 200"},
		{"no protection", world{deleted: true}, "call with the token: observed 401"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			n := &narrator{out: &out, c: test.world.visitor(t)}
			err := n.tell(t.Context(), "envoy 1.2.3")
			if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if test.want == "" && (n.step != 7 || !strings.Contains(out.String(), "envoy 1.2.3") || strings.Contains(out.String(), "tok\n")) {
				t.Errorf("%d steps:\n%s", n.step, out.String())
			}
		})
	}
}

// TestSeed: everything is created in an order in which references exist, and seed waits for
// the last revision.
func TestSeed(t *testing.T) {
	w := &world{progress: `{"proxies":{"waiting":[],"rejected":[]}}`}
	c := w.visitor(t)
	if err := c.seed(t.Context(), 1234); err != nil {
		t.Fatal(err)
	}
	want := []string{"/services/echo", "/routes/echo", "/services/echo/plugins/echo-oauth2", "/consumers/demo", "/consumers/demo/oauth2/demo-app"}
	if diff := cmp.Diff(want, w.puts); diff != "" {
		t.Error(diff)
	}
	if c.lastRevision != "5" {
		t.Errorf("waits for revision %q", c.lastRevision)
	}
}

func TestConverged(t *testing.T) {
	for progress, want := range map[string]string{
		`{"proxies":{"waiting":["cp/default/gw"]}}`:                  "revision 7 has not reached every proxy: waiting [cp/default/gw], rejected []",
		`{"proxies":{"rejected":[{"name":"l","error":"bad port"}]}}`: "revision 7 has not reached every proxy: waiting [], rejected [{l bad port}]",
		`nonsense`: "GET /revisions/7 answered 200: nonsense",
	} {
		c := (&world{progress: progress}).visitor(t)
		c.lastRevision = "7"
		if err := c.converged(t.Context()); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestExpect(t *testing.T) {
	ok := &response{200, []byte(" hello \n")}
	for _, test := range []struct {
		name   string
		r      *response
		err    error
		status int
		part   string
		want   string
	}{
		{"as expected", ok, nil, 200, "ell", ""},
		{"an error", nil, io.EOF, 200, "", "EOF"},
		{"another status", ok, nil, 401, "", `observed 200 hello, expected 401 with ""`},
		{"another text", ok, nil, 200, "bye", `observed 200 hello, expected 200 with "bye"`},
	} {
		got := ""
		if err := expect(test.r, test.err, test.status, test.part); err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s:\n%s", test.name, diff)
		}
	}
}

func TestSay(t *testing.T) {
	var out strings.Builder
	n := &narrator{out: &out}
	n.say("first", "a\nb")
	n.say("second", "c")
	if diff := cmp.Diff(" 1. first\n    a\n    b\n 2. second\n    c\n", out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestSeenHeaders(t *testing.T) {
	for _, test := range []struct{ name, body, want, fails string }{
		{"sorted, identity only", `{"headers":{"X-Consumer-Username":"u","X-Consumer-Id":"i","Accept":"a","x-authenticated-scope":"s"}}`, "X-Consumer-Id: i\nX-Consumer-Username: u\nx-authenticated-scope: s", ""},
		{"spoofed", `{"headers":{"X_consumer_username":"spoofed"}}`, "", "the upstream received the client's own X_consumer_username"},
		{"not JSON", `hello`, "", "the upstream's answer cannot be read: invalid character 'h' looking for beginning of value"},
	} {
		got, err := seenHeaders(&response{200, []byte(test.body)})
		text := ""
		if err != nil {
			text = err.Error()
		}
		if diff := cmp.Diff([]string{test.want, test.fails}, []string{got, text}); diff != "" {
			t.Errorf("%s:\n%s", test.name, diff)
		}
	}
}

func TestField(t *testing.T) {
	r := &response{200, []byte(`{"a":"x","n":1}`)}
	if got := []string{r.field("a"), r.field("n"), r.field("none"), (&response{body: []byte("no")}).field("a")}; !cmp.Equal(got, []string{"x", "", "", ""}) {
		t.Errorf("%q", got)
	}
}

// TestNewClient: the client trusts only the given authority.
func TestNewClient(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc((&world{}).serve))
	defer server.Close()
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	dir := t.TempDir()
	file := filepath.Join(dir, "ca.pem")
	if _, err := newVisitor(file, 1, 1, 2, 3); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(file, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newVisitor(file, 1, 1, 2, 3); err == nil || !strings.Contains(err.Error(), "holds no certificate") {
		t.Errorf("an empty file: %v", err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := newVisitor(file, 8001, 5681, 8000, 8443)
	if err != nil {
		t.Fatal(err)
	}
	defer c.http.CloseIdleConnections()
	if diff := cmp.Diff([]string{"http://127.0.0.1:8001", "http://127.0.0.1:8000", "https://localhost:8443"}, []string{c.admin, c.plain, c.tls}); diff != "" {
		t.Error(diff)
	}
	r, err := c.do(t.Context(), http.MethodGet, server.URL, nil, "", nil)
	if err := expect(r, err, 401, "missing"); err != nil {
		t.Error(err)
	}
}

// TestEcho: the answer has what the upstream received, but never a token.
func TestEcho(t *testing.T) {
	e, err := startEcho(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer e.stop(t.Context())
	c := &visitor{http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	h := http.Header{"Authorization": {"Bearer secret"}, "X-Consumer-Id": {"7"}}
	r, err := c.do(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/a?b=c", e.port), h, "", nil)
	if err := expect(r, err, 200, `"path": "/a?b=c"`); err != nil {
		t.Fatal(err)
	}
	var doc struct{ Headers map[string]string }
	if err := json.Unmarshal(r.body, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Headers["Authorization"] != "(present)" || doc.Headers["X-Consumer-Id"] != "7" || strings.Contains(r.text(), "secret") {
		t.Error(r.text())
	}
}
