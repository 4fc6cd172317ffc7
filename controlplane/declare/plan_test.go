package declare

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/e2e/golden"
)

// TestPlanTexts: what diff prints, for people and for programs. No secret is in it.
func TestPlanTexts(t *testing.T) {
	r := newRig(t, "")
	r.must(t, "sync", file(t, whole))
	t.Setenv("DECK_HOST", "from-environment.example")
	changed := strings.NewReplacer(
		"key: key-two", "key: key-three", "s3cret-one", "s3cret-new", "/v1", "/v2", "scopes: [email]", "scopes: [email, address]",
		"- target: 10.0.0.1", "- target: 10.0.0.2", "host: u1", `host: ${{ env "DECK_HOST" }}`, "methods: [GET, POST]", "methods: [POST, GET]",
		"  config: {status_code: 402}", "  config: {status_code: 403}\n- name: key-auth", "[b, a]", "[a, b]",
	).Replace(whole)
	f := file(t, changed)
	r.writes = nil
	out := r.must(t, "diff", f)
	check(t, "diff", uuids(out))
	asked, code := r.run(t, "diff", f, "--json-output", "--non-zero-exit-code")
	if code != 2 {
		t.Errorf("exit code %d", code)
	}
	var report struct {
		Changes map[string][]struct {
			Name, Kind string
			Body       struct{ New, Old map[string]any }
		}
		Summary          map[string]int
		Warnings, Errors []string
	}
	if err := json.Unmarshal([]byte(asked), &report); err != nil || report.Warnings == nil || report.Errors == nil {
		t.Fatalf("%v\n%s", err, asked)
	}
	if s := report.Summary; s["creating"] != 3 || s["updating"] != 5 || s["deleting"] != 2 || s["total"] != 10 {
		t.Errorf("%v", s)
	}
	for _, u := range report.Changes["updating"] {
		if u.Kind == "service" && u.Name == "billing" && (u.Body.Old["path"] != "/v1" || u.Body.New["path"] != "/v2") {
			t.Errorf("%v", u)
		}
	}
	for _, secret := range []string{"s3cret", "key-one", "key-two", "key-three", "from-environment"} {
		if strings.Contains(out+asked, secret) {
			t.Errorf("%s is shown", secret)
		}
	}
	if quiet := r.must(t, "diff", f, "--silence-events"); !strings.HasPrefix(quiet, "Summary:\n") {
		t.Errorf("%s", quiet)
	}
	if len(r.writes) > 0 {
		t.Errorf("diff has written: %v", r.writes)
	}
	r.must(t, "sync", f)
	if out := r.must(t, "diff", f, "--non-zero-exit-code"); !strings.HasPrefix(out, "Summary:") {
		t.Errorf("after the sync:\n%s", out)
	}
}

// check compares an output with a file of testdata.
func check(t *testing.T, name, got string) {
	t.Helper()
	golden.Compare(t, filepath.Join("testdata", name+".golden"), []byte(got))
}

// TestFileTexts: what is wrong with files, in the words of the reference.
func TestFileTexts(t *testing.T) {
	r := newRig(t, "")
	t.Setenv("DECK_SET", "value")
	t.Setenv("OTHER", "value")
	var all strings.Builder
	for _, text := range []string{
		"servces: []",
		"services:\n- name: a\n  hots: a.example",
		"services:\n- name: a\n  host: a.example\n  port: many",
		"services:\n- name: a\n  host: a.example\n  routes:\n  - name: r\n    paths: [x]",
		"services:\n- {name: a, host: h}\n- {name: a, host: i}",
		"plugins:\n- name: key-auth\n  service: nope",
		"consumers:\n- username: c\n  oauth2_credentials:\n  - name: app",
		"consumers:\n- username: c\n  keyauth_credentials:\n  - tags: [a]",
		"services:\n- name: ${{ env \"DECK_UNSET\" }}\n  host: h",
		"services:\n- name: ${{ env \"OTHER\" }}\n  host: h",
		"services:\n- name: ${{ toUpper \"DECK_SET\" }}\n  host: h",
		"_format_version: \"1.1\"\nservices: []",
		"_info: {defaults: {servise: {}}, other: 1}",
		"_info: {defaults: {service: {nope: 1}}}",
		"_info: {defaults: {plugin: {enabled: false, config: {message: m}}}}",
		"_workspace: other",
		"_cloud: {name: x}",
		"oauth2_tokens:\n- credential: app\n  expires_in: 5",
		"services: [",
	} {
		out, code := r.run(t, "sync", file(t, text))
		if code != 1 {
			t.Errorf("%q: exit code %d", text, code)
		}
		for line := range strings.Lines(out + "\n") {
			line = places.ReplaceAllString(line, "gateway.yaml")
			all.WriteString(strings.TrimRight(line, "\n") + "\n")
		}
	}
	out, code := r.run(t, "sync", filepath.Join(t.TempDir(), "absent.yaml"))
	if code != 1 || !strings.Contains(out, "no such file") {
		t.Errorf("%d %s", code, out)
	}
	check(t, "problems", all.String())
	if len(r.writes) != 0 {
		t.Errorf("%v", r.writes)
	}
}

// places are names of files with their directories.
var places = regexp.MustCompile(`[^ (\n]*gateway\.yaml`)

// TestSeveralFiles: files, directories and standard input are one configuration, and tags of
// its header are everybody's.
func TestSeveralFiles(t *testing.T) {
	r := newRig(t, "")
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.yaml", "_format_version: \"3.0\"\n_info:\n  select_tags: [mine]\n  defaults:\n    service: {retries: 9}\n    route: {preserve_host: true}\nservices:\n- {name: one, url: 'http://one.example', tags: [own]}\n")
	write("b.json", `{"_format_version": "3.0", "routes": [{"name": "r", "paths": ["/r"], "service": "one"}]}`)
	write("ignored.txt", "nothing")
	r.api(t, "POST", "/services", `{"name": "theirs", "host": "h"}`, 201)
	r.must(t, "sync", dir)
	if got := r.api(t, "GET", "/services/one", "", 200); !strings.Contains(got, `"retries":9`) || !strings.Contains(got, `"tags":["own","mine"]`) {
		t.Error(got)
	}
	if got := r.api(t, "GET", "/routes/r", "", 200); !strings.Contains(got, `"preserve_host":true`) || !strings.Contains(got, `"tags":["mine"]`) {
		t.Error(got)
	}
	dump := r.must(t, "dump", "--select-tag", "mine")
	if strings.Contains(dump, "theirs") || !strings.Contains(dump, "select_tags:\n    - mine") || strings.Count(dump, "mine") != 1 {
		t.Error(dump)
	}
	c := GatewayCommand()
	c.SetIn(strings.NewReader(dump))
	r.command = c
	if out := r.must(t, "diff", "-", "--non-zero-exit-code"); !strings.HasPrefix(out, "Summary:") {
		t.Error(out)
	}
	if out, code := r.run(t, "diff", dir, "--select-tag", "other"); code != 1 || !strings.Contains(out, "are different") {
		t.Errorf("%d %s", code, out)
	}
	// A reference to what somebody else owns is good as long as that is there.
	write("c.yaml", "_format_version: \"3.0\"\nplugins:\n- {name: key-auth, service: theirs}\n")
	r.must(t, "sync", dir)
	write("c.yaml", "_format_version: \"3.0\"\nplugins:\n- {name: key-auth, service: nobodys}\n")
	if out, code := r.run(t, "sync", dir); code != 1 || !strings.Contains(out, "building state: service nobodys for plugin key-auth: entity not found") {
		t.Errorf("%d %s", code, out)
	}
	if out := r.must(t, "reset", "--select-tag", "mine", "--force"); !strings.Contains(out, "Deleted: 3") {
		t.Error(out)
	}
	r.api(t, "GET", "/services/theirs", "", 200)
}

// TestFailures: what succeeded stays, nothing is deleted after a failure, and what needs what
// failed is left out.
func TestFailures(t *testing.T) {
	r := newRig(t, "")
	r.api(t, "POST", "/services", `{"name": "old", "host": "h"}`, 201)
	r.before = func(w http.ResponseWriter, q *http.Request) bool {
		if q.Method != http.MethodPut || !strings.HasPrefix(q.URL.Path, "/services/") {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"message":"An unexpected error occurred"}`))
		return true
	}
	out, code := r.run(t, "sync", file(t, "consumers:\n- username: c\nservices:\n- name: s\n  host: h\n  routes:\n  - {name: r, paths: [/r]}\n"))
	want := []string{
		"2 errors occurred:\n", `	creating service s: HTTP status 500 (message: "An unexpected error occurred")`,
		"	creating route r: left out, because something that it needs could not be written", "Created: 1\n  Updated: 0\n  Deleted: 0\n",
	}
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("%q is not in\n%s", w, out)
		}
	}
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	r.api(t, "GET", "/services/old", "", 200)
	r.api(t, "GET", "/consumers/c", "", 200)
}

// TestConflictsWithWhatGoes: a value that must be unique moves from an entity that goes to one
// that comes, and entities that are in each other's way are deleted.
func TestConflictsWithWhatGoes(t *testing.T) {
	r := newRig(t, "")
	r.must(t, "sync", file(t, "consumers:\n- {username: old, custom_id: '7'}\n"))
	next := file(t, "consumers:\n- username: new\n  custom_id: '7'\n  keyauth_credentials:\n  - key: some-key\n")
	if out := r.must(t, "sync", next); !strings.HasSuffix(out, "Created: 2\n  Updated: 0\n  Deleted: 1\n") {
		t.Error(out)
	}
	if out := r.must(t, "diff", next, "--non-zero-exit-code"); !strings.HasPrefix(out, "Summary:") {
		t.Error(out)
	}
}

// TestIDs: ids of a file are those of what is made, whoever was renamed keeps its id, and an
// entity that is there under another id keeps it, also where others name it by the id.
func TestIDs(t *testing.T) {
	r := newRig(t, "")
	const a, b = "a0000000-0000-4000-8000-000000000001", "b0000000-0000-4000-8000-000000000002"
	text := "consumers:\n- {id: " + a + ", username: guest}\nplugins:\n- name: key-auth\n  config: {anonymous: " + a + "}\n"
	r.must(t, "sync", file(t, text))
	if dump := r.must(t, "dump"); !strings.Contains(dump, "id: "+a) || !strings.Contains(dump, "anonymous: "+a) {
		t.Error(dump)
	}
	renamed := strings.ReplaceAll(text, "guest", "visitor")
	if out := r.must(t, "sync", file(t, renamed)); !strings.Contains(out, "updating consumer visitor") || !strings.Contains(out, "Deleted: 0") {
		t.Error(out)
	}
	other := strings.ReplaceAll(renamed, a, b)
	if out := r.must(t, "diff", file(t, other), "--non-zero-exit-code"); !strings.HasPrefix(out, "Summary:") {
		t.Error(out)
	}
	r.must(t, "reset", "--yes")
	r.must(t, "sync", file(t, other))
	if got := r.api(t, "GET", "/consumers/visitor", "", 200); !strings.Contains(got, b) {
		t.Error(got)
	}
}
