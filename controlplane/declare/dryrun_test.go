package declare

import (
	"bytes"
	"encoding/json"
	"io"
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

// refuseBad refuses a route with the name bad, as an API does that checks more than the tool.
func refuseBad(t *testing.T, w http.ResponseWriter, q *http.Request) bool {
	raw, err := io.ReadAll(q.Body)
	if err != nil {
		t.Error(err)
	}
	q.Body = io.NopCloser(bytes.NewReader(raw))
	if !bytes.Contains(raw, []byte(`"name":"bad"`)) {
		return false
	}
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write([]byte(`{"message":"schema violation (a bad route)"}`))
	return true
}

// TestDryRunForPrograms: they read of each change what the control plane said, problems are warnings,
// and what is refused is no change but an error, in both forms.
func TestDryRunForPrograms(t *testing.T) {
	r := newRig(t, "", func(o *gatewayapi.Options) { o.DryRun = dryruntest.New(t, o.Store) })
	r.must(t, "sync", file(t, "services:\n- {name: kept, host: h}\n- {name: grpc, host: h, protocol: grpc, routes: [{name: r, paths: [/r], protocols: [grpc], strip_path: false}]}\n"))
	r.before = func(w http.ResponseWriter, q *http.Request) bool {
		if q.URL.Path == "/schemas/routes/validate" {
			return refuseBad(t, w, q)
		}
		if q.Method != http.MethodPut || !strings.HasPrefix(q.URL.Path, "/consumers/") {
			return false
		}
		_, _ = w.Write([]byte(`{"dryRun":true,"verdict":"created","revision":1,"nodes":{"compared":3,"changed":2,"omitted":0},"writes":[],"changes":[],
			"problems":[{"resource":"route x","error":"is broken","nodes":2},{"resource":"route y","error":"was broken","already":true,"nodes":1}]}`))
		return true
	}
	f := file(t, "services:\n- {name: kept, host: i}\n- {name: new, host: h, routes: [{name: later, paths: [/l]}, {name: bad, paths: [/b]}]}\n"+
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
	if !slices.Equal(got.Warnings, []string{"creating consumer anna: route x: is broken"}) || len(got.Errors) != 2 || !strings.Contains(got.Errors[0], "for route r: HTTP status 400") || !strings.HasPrefix(got.Errors[1], "creating route bad: HTTP status 400 (message: \"schema violation (a bad route)\")") {
		t.Errorf("%q %q", got.Warnings, got.Errors)
	}
	human, code := r.run(t, "sync", "--dry-run", f)
	if code != 1 || !strings.Contains(human, "Summary:\n  Created: 3\n  Updated: 1\n") || !strings.Contains(human, "for route r\n   refused: HTTP status 400") {
		t.Errorf("%d %s", code, human)
	}
}

// readSaid reads what a command printed for programs, with the verdicts by name.
func readSaid(t *testing.T, out string) (got said, verdicts map[string]string) {
	t.Helper()
	if err := json.NewDecoder(strings.NewReader(out[max(0, strings.Index(out, "{\n")):])).Decode(&got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	verdicts = map[string]string{}
	for _, list := range got.Changes {
		for _, c := range list {
			verdicts[c.Name] = c.DryRun.Verdict
		}
	}
	return got, verdicts
}

// TestUntried: what nobody has looked at is not checked. A write for which the control plane had no time is
// not refused, and a warning counts such writes.
func TestUntried(t *testing.T) {
	m := newMeshRig(t)
	f := file(t, "type: Mesh\nname: m\n---\n"+dataplanes(1))
	got, verdicts := readSaid(t, m.must("sync", "--dry-run", "--json-output", f))
	if verdicts["m"] != "created" || verdicts["a"] != "untried" || len(got.Errors) > 0 {
		t.Errorf("%v %+v", verdicts, got)
	}
	if out := m.must("sync", "--dry-run", f); !strings.Contains(out, "creating Dataplane a of mesh m\n   untried: it can be tried when") {
		t.Error(out)
	}

	r := newRig(t, "", func(o *gatewayapi.Options) { o.DryRun = dryruntest.New(t, o.Store) })
	r.before = func(w http.ResponseWriter, q *http.Request) bool {
		if q.Method != http.MethodPut && q.Method != http.MethodPost {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	f = file(t, "services:\n- {name: s, host: h, routes: [{name: r, paths: [/r]}]}\n")
	const warning = "2 of 2 writes were not tried, because the control plane had no time; the first is creating service s: "
	out, code := r.run(t, "sync", "--dry-run", "--json-output", f)
	got, verdicts = readSaid(t, out)
	if code != 1 || verdicts["s"] != "untried" || verdicts["r"] != "untried" || len(got.Errors) > 0 || len(got.Warnings) != 1 || !strings.HasPrefix(got.Warnings[0], warning) {
		t.Errorf("%v %+v", verdicts, got)
	}
	if out, code := r.run(t, "sync", "--dry-run", "--silence-events", f); code != 1 || !strings.Contains(out, "meshgate: "+warning) {
		t.Error(code, out)
	}
}

// TestDeletionThatStaysRefused: a deletion that the API refuses is only called checked if another write of the
// plan may end what forbids it. A program that reads "checked" would run a sync that fails.
func TestDeletionThatStaysRefused(t *testing.T) {
	m := newMeshRig(t)
	m.mesh()
	m.must("sync", file(t, "type: Mesh\nname: kept\n---\n"+dataplanes(1)))
	m.before = func(w http.ResponseWriter, q *http.Request) bool { // the rules of a whole control plane
		if q.Method != http.MethodDelete || q.URL.Path != "/meshes/m" || !q.URL.Query().Has("dryRun") {
			return false
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"title":"Could not delete a Mesh","detail":"there are still some dataplanes attached"}`))
		return true
	}
	kept := file(t, "type: Mesh\nname: kept\n# _format_version\n")
	out, code := m.run("sync", "--all-meshes", "--dry-run", kept)
	if code != 1 || !strings.Contains(out, "deleting Mesh m\n   refused: HTTP status 400") {
		t.Errorf("%d %s", code, out)
	}
	if out, code = m.run("sync", "--all-meshes", "--with-proxies", "--dry-run", kept); code != 0 || !strings.Contains(out, "deleting Mesh m\n   checked;") {
		t.Errorf("with the proxies: %d %s", code, out)
	}

	r := newRig(t, "", func(o *gatewayapi.Options) { o.DryRun = dryruntest.New(t, o.Store) })
	r.must(t, "sync", "--select-tag", "a", file(t, "services:\n- {name: s, host: h}\n- {name: own, host: h, routes: [{name: r, paths: [/r]}]}\n"))
	r.api(t, "POST", "/services/s/routes", `{"name": "theirs", "paths": ["/t"], "tags": ["b"]}`, 201)
	out, code = r.run(t, "sync", "--select-tag", "a", "--dry-run", file(t, "consumers:\n- {username: anna}\n"))
	if code != 1 || !strings.Contains(out, "deleting service s\n   refused: HTTP status 400") || !strings.Contains(out, "deleting service own\n   checked;") {
		t.Errorf("%d %s", code, out)
	}
}
