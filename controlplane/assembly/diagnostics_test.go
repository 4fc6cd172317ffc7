package assembly

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/e2e/golden"
)

// TestDiagnosticsMatrix tries every path of the diagnostics port with every kind of
// credential, with profiles and the administration token on and off. Only the administration
// token opens what is not open to everybody.
func TestDiagnosticsMatrix(t *testing.T) {
	const token = "the administration token"
	header := func(name, value string) http.Header { return http.Header{name: {value}} }
	credentials := []struct {
		name   string
		header http.Header
	}{
		{"none", nil},
		{"node token", header("Authorization", "Bearer eyJhbGciOiJSUzI1NiJ9.e30.c2ln")},
		{"user of another mesh", header("Authorization", "Bearer user")},
		{"Basic", header("Authorization", "Basic "+token)},
		{"administrator", header("Authorization", "Bearer "+token)},
		{"administrator, own header", header(httpkit.HeaderAdminToken, token)},
		{"two tokens", http.Header{"Authorization": {"Bearer " + token, "Bearer " + token}}},
		{"foreign page", http.Header{"Authorization": {"Bearer " + token}, "Origin": {"https://evil.example"}}},
		{"forwarded", http.Header{"Authorization": {"Bearer " + token}, "X-Forwarded-For": {"127.0.0.1"}}},
	}
	paths := []string{
		"/healthy", "/ready", "/metrics", "/debug/pprof", "/debug/pprof/", "/debug/pprof/goroutine", "/debug/pprof/heap",
		"/debug/pprof/cmdline", "/debug/pprof/symbol", "/debug/vars", "/config_dump", "/xds", "/",
	}
	var b strings.Builder
	r := &readiness{conditions: newConditions(slog.New(slog.DiscardHandler))}
	r.serving.Store(true)
	for _, p := range []profiling{{}, {on: true}, {on: true, token: token}} {
		h := diagnostics(r, prometheus.NewRegistry(), p)
		fmt.Fprintf(&b, "# profiles %t, administration token %t\n", p.on, p.token != "")
		for _, path := range paths {
			for _, c := range credentials {
				req := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:5680"+path, nil)
				for k, v := range c.header {
					req.Header[k] = v
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, req)
				fmt.Fprintf(&b, "%-26s %-26s %d\n", path, c.name, w.Code)
				if strings.Contains(w.Body.String(), os.Args[0]) && strings.Contains(path, "cmdline") {
					t.Errorf("%s shows the command line to %s", path, c.name)
				}
			}
		}
	}
	golden.Compare(t, "testdata/diagnostics.golden", []byte(b.String()))
}
