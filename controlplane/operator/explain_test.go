package operator

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/cli/clitest"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/inspect/explain"
)

// TestExplainCommand asks the right endpoint, and prints what it answers.
func TestExplainCommand(t *testing.T) {
	var asked string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.String()
		_ = httpkit.WriteJSON(w, http.StatusOK, explain.Explanation{
			Outcome: explain.Outcome{Verdict: explain.Refused, Status: 403, Text: "the caller may not call this service"},
			Steps:   []explain.Step{{Proxy: "web-1", Step: "route", Text: "the first route\x1b[2J", Decided: []explain.Resource{{Type: "TrafficRoute", Name: "all"}}}},
			Endpoints: []explain.Endpoint{{
				Address: "10.0.0.2:8080", Share: 100, Outcome: explain.Outcome{Verdict: explain.Refused, Status: 403, Text: "no"},
				Steps: []explain.Step{{Proxy: "backend-1", Step: "permission", Text: "no"}},
			}},
		})
	}))
	defer api.Close()
	run := func(args ...string) string {
		t.Helper()
		out, err := clitest.Execute(t, ExplainCommand(), append(args, "--address", api.URL)...)
		if err != nil {
			return err.Error()
		}
		var lines []string
		for line := range strings.Lines(out) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		return strings.Join(lines, "\n")
	}
	want := `PROXY STEP DECIDED BY WHAT
web-1 route TrafficRoute all the first route?[2J
backend-1 permission no
10.0.0.2:8080 refused 100 % no

refused (403): the caller may not call this service`
	if diff := cmp.Diff(want, run("shop.web-1", "backend", "--path", "/a?b", "--header", "x:1", "--header", "y:2")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if want := "/meshes/shop/explain?destination=backend&header=x%3A1&header=y%3A2&path=%2Fa%3Fb&source=web-1"; asked != want {
		t.Errorf("asked for %s, want %s", asked, want)
	}
	if out := run("shop.example", "-o", "json"); !strings.Contains(out, `"verdict":"refused"`) || asked != "/gateway-explain?host=shop.example" {
		t.Errorf("asked for %s: %s", asked, out)
	}
	if out := run("web-1", "backend"); !strings.Contains(out, "is no MESH.DATAPLANE") {
		t.Error(out)
	}
}
