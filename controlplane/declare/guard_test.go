package declare

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/meshgate/meshgate/controlplane/dryrun/dryruntest"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
)

// TestSelectTags: tags that select more than they say, or everything, are refused before
// anything is asked.
func TestSelectTags(t *testing.T) {
	r := newRig(t, "")
	var asked atomic.Int32
	r.before = func(http.ResponseWriter, *http.Request) bool { asked.Add(1); return false }
	plain, tagged := file(t, "services:\n- {name: a, host: h}\n"), file(t, "_info: {select_tags: [a/b]}\nservices:\n- {name: a, host: h}\n")
	for _, args := range [][]string{
		{"diff", plain, "--select-tag", ""}, {"sync", plain, "--select-tag", "a,"}, {"sync", plain, "--select-tag", "a", "--select-tag", ""},
		{"reset", "--yes", "--select-tag", ""}, {"dump", "--select-tag", ""}, {"validate", plain, "--select-tag", ""},
		{"diff", plain, "--select-tag", "a/b"}, {"reset", "--yes", "--select-tag", "a/b"}, {"sync", tagged},
		{"dump", "--select-tag", "a,b,c", "--select-tag", "d,e,f"},
	} {
		if out, code := r.run(t, args...); code != 1 || !strings.Contains(out, "select") || asked.Load() > 0 {
			t.Errorf("%v: %d after %d requests: %s", args, code, asked.Load(), out)
		}
	}
	t.Setenv("MESHGATE_SELECT_TAG", "")
	if out, code := r.run(t, "reset", "--yes"); code != 1 || !strings.Contains(out, "MESHGATE_SELECT_TAG") || asked.Load() > 0 {
		t.Errorf("%d after %d requests: %s", code, asked.Load(), out)
	}
}

// TestConflictWithAStranger: if what is wanted has a value of somebody else, which does not go,
// nothing is deleted.
func TestConflictWithAStranger(t *testing.T) {
	r := newRig(t, "")
	r.api(t, "POST", "/services", `{"name": "theirs", "host": "h", "tags": ["team-b"]}`, 201)
	r.must(t, "sync", "--select-tag", "team-a", file(t, "services:\n- name: old\n  host: h\n  routes:\n  - {name: r, paths: [/r]}\n"))
	r.writes = nil
	out, code := r.run(t, "sync", "--select-tag", "team-a", file(t, "services:\n- name: theirs\n  host: i\n  routes:\n  - {name: s, paths: [/r]}\n"))
	if code != 1 || !strings.Contains(out, "creating service theirs: HTTP status 409") || !strings.Contains(out, "creating route s: left out") || !strings.Contains(out, "Deleted: 0") {
		t.Errorf("%d %s", code, out)
	}
	for _, w := range r.writes {
		if strings.HasPrefix(w, "DELETE") {
			t.Errorf("%s", w)
		}
	}
	r.api(t, "GET", "/routes/r", "", 200)
}

// TestFailuresHideSecrets: what the API says of a failure names secrets of the file, which
// nobody sees.
func TestFailuresHideSecrets(t *testing.T) {
	r := newRig(t, "")
	const key, secret = `super-secret"key`, "client-secret-1"
	r.api(t, "POST", "/consumers", `{"username": "bob"}`, 201)
	r.api(t, "POST", "/consumers/bob/key-auth", `{"key": "super-secret\"key"}`, 201)
	r.api(t, "POST", "/consumers/bob/oauth2", `{"name": "a", "client_id": "bobs", "client_secret": "`+secret+`", "redirect_uris": ["https://app.example/cb"]}`, 201)
	t.Setenv("DECK_KEY", key)
	f := file(t, `consumers:
- username: alice
  keyauth_credentials:
  - key: ${{ env "DECK_KEY" }}
  oauth2_credentials:
  - {name: a, client_id: alices, client_secret: `+secret+`, redirect_uris: ["https://app.example/cb"]}
`)
	for _, args := range [][]string{{"sync"}, {"sync", "--json-output"}} {
		out, code := r.run(t, append(args, "--select-tag", "a", f)...)
		if code != 1 || strings.Count(out, "UNIQUE violation") < 2 || strings.Contains(out, "super-secret") || strings.Contains(out, secret) || !strings.Contains(out, Masked) {
			t.Errorf("%d %s", code, out)
		}
	}
}

// TestProblemsHideTheEnvironment: what is wrong with a value from the environment is said without
// it.
func TestProblemsHideTheEnvironment(t *testing.T) {
	r := newRig(t, "")
	t.Setenv("DECK_URI", "no-uri-but-a-secret")
	out, code := r.run(t, "diff", file(t, `consumers:
- username: c
  oauth2_credentials:
  - {name: a, client_id: a, client_secret: s, redirect_uris: ['${{ env "DECK_URI" }}']}
`))
	if code != 1 || !strings.Contains(out, "cannot parse '"+Masked+"'") || strings.Contains(out, "no-uri") {
		t.Errorf("%d %s", code, out)
	}
}

// TestTwinCertificates: two certificates may be the same; neither is lost. Others that cannot
// be told apart are an error.
func TestTwinCertificates(t *testing.T) {
	cert, key := pair(t)
	r := newRig(t, "")
	quoted := func(pem string) string { return strings.ReplaceAll(pem, "\n", `\n`) }
	for _, name := range []string{"a", "b"} {
		r.api(t, "POST", "/certificates", `{"cert": "`+quoted(cert)+`", "key": "`+quoted(key)+`", "snis": ["`+name+`.example"]}`, 201)
	}
	dump := r.must(t, "dump")
	if strings.Count(dump, "- cert: ") != 2 || strings.Count(dump, "\n    id: ") != 2 || !strings.Contains(dump, "a.example") || !strings.Contains(dump, "b.example") {
		t.Fatal(dump)
	}
	f := file(t, dump)
	if out := r.must(t, "diff", f, "--non-zero-exit-code"); !strings.HasPrefix(out, "Summary:") {
		t.Error(out)
	}
	if out := r.must(t, "reset", "--yes"); !strings.Contains(out, "Deleted: 4") {
		t.Error(out)
	}
	r.must(t, "sync", f)
	if again := r.must(t, "dump"); again != dump {
		t.Errorf("%s\n%s", dump, again)
	}
	two := file(t, strings.ReplaceAll(dump, "id: ", "# "))
	if out, code := r.run(t, "diff", two); code != 1 || !strings.Contains(out, "entity already exists") {
		t.Errorf("%d %s", code, out)
	}
	r.before = func(w http.ResponseWriter, q *http.Request) bool {
		if q.URL.Path != "/services" {
			return false
		}
		_, _ = w.Write([]byte(`{"data": [{"id": "a0000000-0000-4000-8000-000000000001", "name": "a"}, {"id": "b0000000-0000-4000-8000-000000000002", "name": "a"}], "next": null}`))
		return true
	}
	if out, code := r.run(t, "dump"); code != 1 || !strings.Contains(out, "service a") {
		t.Errorf("%d %s", code, out)
	}
}

// TestCascades: what goes with something that is deleted is in the plan, whoever owns it.
func TestCascades(t *testing.T) {
	r := newRig(t, "")
	r.must(t, "sync", "--select-tag", "team-a", file(t, "consumers:\n- username: alice\n"))
	r.api(t, "POST", "/consumers/alice/key-auth", `{"key": "k", "tags": ["team-b"]}`, 201)
	r.api(t, "POST", "/consumers/alice/plugins", `{"name": "request-termination", "tags": ["team-b"]}`, 201)
	r.api(t, "POST", "/consumers", `{"username": "bob"}`, 201)
	empty := file(t, "consumers: []\n")
	out := r.must(t, "diff", "--select-tag", "team-a", empty)
	for _, want := range []string{
		"deleting key-auth ", "deleting plugin request-termination for consumer alice\n", "deleting consumer alice\n", "Deleted: 3\n",
		" for consumer alice goes with consumer alice, although it is not selected\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if out := r.must(t, "sync", "--select-tag", "team-a", empty); !strings.Contains(out, "Deleted: 3\n") {
		t.Error(out)
	}
	r.api(t, "POST", "/services", `{"name": "s", "host": "h"}`, 201)
	r.api(t, "POST", "/plugins", `{"name": "request-termination", "service": {"name": "s"}, "consumer": {"username": "bob"}}`, 201)
	if out := r.must(t, "reset", "--skip-consumers", "--yes"); !strings.Contains(out, "deleting plugin request-termination for ") || !strings.Contains(out, "Deleted: 2\n") {
		t.Error(out)
	}
}

// TestDryRunElsewhere: nothing is written where dry runs are not known, and no more is asked
// after an answer that is none.
func TestDryRunElsewhere(t *testing.T) {
	r := newRig(t, "", func(o *gatewayapi.Options) { o.DryRun = dryruntest.New(t, o.Store) })
	f := file(t, "services:\n- {name: a, host: h}\n- {name: b, host: h}\n- {name: c, host: h}\n")
	r.before = func(_ http.ResponseWriter, q *http.Request) bool {
		q.URL.RawQuery = ""
		return false
	}
	if out, code := r.run(t, "sync", f, "--dry-run"); code != 1 || !strings.Contains(out, "dry run") {
		t.Errorf("%d %s", code, out)
	}
	r.before = nil
	r.api(t, "GET", "/services/a", "", 404)
	tried := 0
	r.before = func(w http.ResponseWriter, q *http.Request) bool {
		if q.Method != http.MethodPut {
			return false
		}
		tried++
		_, _ = w.Write([]byte(`{"id": "a0000000-0000-4000-8000-000000000001"}`))
		return true
	}
	if out, code := r.run(t, "sync", f, "--dry-run", "--parallelism", "1"); code != 1 || !strings.Contains(out, "dry run") || tried != 1 {
		t.Errorf("%d after %d: %s", code, tried, out)
	}
}

// TestLiteralReferences: what a gateway holds is a reference to the environment in no dump.
func TestLiteralReferences(t *testing.T) {
	r := newRig(t, "")
	t.Setenv("DECK_KONNECT_TOKEN", "operators-token")
	r.api(t, "POST", "/plugins", `{"name": "request-termination", "config": {"message": "${{ env \"DECK_KONNECT_TOKEN\" }}"}}`, 201)
	r.api(t, "POST", "/services", `{"name": "s", "host": "h", "path": "/${{x"}`, 201)
	for _, format := range []string{"yaml", "json"} {
		dump := r.must(t, "dump", "--format", format)
		f := file(t, dump)
		if out := r.must(t, "diff", f, "--non-zero-exit-code"); !strings.HasPrefix(out, "Summary:") {
			t.Errorf("%s\n%s", dump, out)
		}
		r.must(t, "reset", "--yes")
		r.must(t, "sync", f)
		if got := r.api(t, "GET", "/plugins", "", 200); !strings.Contains(got, `${{ env \"DECK_KONNECT_TOKEN\" }}`) {
			t.Error(got)
		}
		if again := r.must(t, "dump", "--format", format); again != dump {
			t.Errorf("%s\n%s", dump, again)
		}
	}
	r.must(t, "reset", "--yes")
	for _, text := range []string{"message: \"${{ `${{` }} ${{x\"", `message: '${{ env "DECK_KONNECT_TOKEN" }} ${{ x'`} {
		if out, code := r.run(t, "sync", file(t, "plugins:\n- name: request-termination\n  config:\n    "+text+"\n")); code != 1 || !strings.Contains(out, "no whole reference") {
			t.Errorf("%d %s", code, out)
		}
	}
}
