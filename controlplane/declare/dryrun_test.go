package declare

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/dryrun/dryruntest"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
)

// said is what programs read of a dry run.
type said struct {
	Changes map[string][]struct {
		Name   string
		DryRun *struct {
			Verdict  string
			Nodes    *struct{ Compared, Changed int }
			Problems []struct{ Resource, Error string }
		} `json:"dry_run"`
	}
	Summary          struct{ Creating, Updating, Total int }
	Warnings, Errors []string
}

// TestDryRunForPrograms: they read of each change what the control plane said, problems are warnings,
// and what is refused is no change but an error, in both forms.
func TestDryRunForPrograms(t *testing.T) {
	r := newRig(t, "", func(o *gatewayapi.Options) { o.DryRun = dryruntest.New(t, o.Store) })
	r.must(t, "sync", file(t, "services:\n- {name: kept, host: h}\n- {name: grpc, host: h, protocol: grpc, routes: [{name: r, paths: [/r], protocols: [grpc], strip_path: false}]}\n"))
	r.before = func(w http.ResponseWriter, q *http.Request) bool {
		if q.Method != http.MethodPut || !strings.HasPrefix(q.URL.Path, "/consumers/") {
			return false
		}
		_, _ = w.Write([]byte(`{"dryRun":true,"verdict":"created","revision":1,"nodes":{"compared":3,"changed":2,"omitted":0},"writes":[],"changes":[],
			"problems":[{"resource":"route x","error":"is broken","nodes":2},{"resource":"route y","error":"was broken","already":true,"nodes":1}]}`))
		return true
	}
	f := file(t, "services:\n- {name: kept, host: i}\n- {name: new, host: h, routes: [{name: later, paths: [/l]}]}\n"+
		"- {name: grpc, host: h, protocol: grpc, routes: [{name: r, paths: [/r], protocols: [grpc], strip_path: false, plugins: [{name: key-auth, protocols: [http]}]}]}\n"+
		"consumers:\n- {username: anna}\n")
	out, code := r.run(t, "sync", "--dry-run", "--json-output", f)
	var got said
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&got); err != nil || code != 1 {
		t.Fatalf("%d %v %s", code, err, out)
	}
	verdicts := map[string]string{}
	for _, list := range got.Changes {
		for _, c := range list {
			if c.DryRun == nil {
				t.Fatalf("nothing is said of %s: %s", c.Name, out)
			}
			verdicts[c.Name] = c.DryRun.Verdict
			if c.Name == "anna" && (c.DryRun.Nodes == nil || c.DryRun.Nodes.Changed != 2 || len(c.DryRun.Problems) != 2) {
				t.Errorf("%+v", c.DryRun)
			}
		}
	}
	want := map[string]string{"kept": "updated", "new": "created", "later": "checked", "anna": "created"}
	if len(verdicts) != len(want) {
		t.Errorf("%v", verdicts)
	}
	for name, verdict := range want {
		if verdicts[name] != verdict {
			t.Errorf("%s: %q, want %q", name, verdicts[name], verdict)
		}
	}
	if got.Summary.Creating != 3 || got.Summary.Updating != 1 || got.Summary.Total != 4 {
		t.Errorf("%+v", got.Summary)
	}
	if !slices.Equal(got.Warnings, []string{"creating consumer anna: route x: is broken"}) || len(got.Errors) != 1 || !strings.Contains(got.Errors[0], "HTTP status 400") {
		t.Errorf("%q %q", got.Warnings, got.Errors)
	}
	human, code := r.run(t, "sync", "--dry-run", f)
	if code != 1 || !strings.Contains(human, "Summary:\n  Created: 3\n  Updated: 1\n") || !strings.Contains(human, "for route r\n   refused: HTTP status 400") {
		t.Errorf("%d %s", code, human)
	}
}
