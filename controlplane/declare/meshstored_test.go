package declare

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshapi/meshapitest"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy/all"
)

// mesh creates the mesh of the samples.
func (r *meshRig) mesh() {
	r.t.Helper()
	if _, _, err := r.gate.PutDocument(r.t.Context(), mesh.Meshes, "", meshapitest.Mesh, &mesh.Mesh{}); err != nil {
		r.t.Fatal(err)
	}
}

// settled fails unless a file has nothing for diff and sync to do.
func (r *meshRig) settled(f string) {
	r.t.Helper()
	before := r.store.Revision()
	for _, command := range []string{"diff", "sync"} {
		if out, code := r.run(command, f, "--non-zero-exit-code", "--with-proxies", "--with-secrets"); code != 0 || out != nothing {
			r.t.Errorf("%s: exit code %d\n%s", command, code, out)
		}
	}
	if now := r.store.Revision(); now != before {
		r.t.Errorf("revision %d became %d", before, now)
	}
}

// TestEverySampleIsSyncedOnce: after a sync of a document of whatever kind there is no difference, and
// a second sync writes nothing.
func TestEverySampleIsSyncedOnce(t *testing.T) {
	for _, k := range documented(append(mesh.Kinds(), all.Kinds()...)) {
		t.Run(k.Document.Type, func(t *testing.T) {
			r := newMeshRig(t)
			r.mesh()
			for _, sample := range meshapitest.Samples(t, "../..", k) {
				sample["name"] = "x"
				text, err := json.Marshal(sample)
				if err != nil {
					t.Fatal(err)
				}
				f := file(t, string(text)+"\n# _format_version\n")
				if out := r.must("sync", f); out == nothing {
					t.Fatalf("nothing was done: %s", text)
				}
				r.settled(f)
				if out := r.must("sync", file(t, "type: Mesh\nname: "+meshapitest.Mesh+"\n# _format_version\n"), "--with-proxies", "--with-secrets", "--all-meshes"); !strings.Contains(out, "Deleted: 1") {
					t.Fatal(out)
				}
			}
		})
	}
}

const inEast = `{"type":"Dataplane","mesh":"m","name":"x","networking":{"address":"10.0.0.1","inbound":[{"port":PORT,"tags":{"mesh.io/service":"web"},"serviceProbe":{"tcp":{}}}]}}
# _format_version
`

// TestMeshCompleted: a change is shown as the control plane would store it, without what it fills in by
// itself: the zone, and the readiness that a probe has found out.
func TestMeshCompleted(t *testing.T) {
	r := newMeshRig(t)
	r.mesh()
	f := file(t, strings.Replace(inEast, "PORT", "80", 1))
	r.must("sync", f)
	if _, err := r.gate.AmendDocument(t.Context(), mesh.Dataplanes, meshapitest.Mesh, "x", func(stored *model.Resource) (any, error) {
		return stored.Spec.(*mesh.Dataplane).WithInbounds(func(in *mesh.Inbound) { in.SetReady(true) }), nil
	}); err != nil {
		t.Fatal(err)
	}
	r.settled(f)
	moved := file(t, strings.Replace(inEast, "PORT", "81", 1))
	out, code := r.run("diff", moved, "--non-zero-exit-code")
	if code != exitDifferences || strings.Count(out, `"mesh.io/zone": "east"`) != 2 || strings.Count(out, `"port": 8`) != 2 {
		t.Errorf("exit code %d\n%s", code, out)
	}
	out, _ = r.run("diff", moved, "--json-output")
	if strings.Count(out, `"mesh.io/zone": "east"`) != 2 {
		t.Error(out)
	}
	before := r.store.Revision()
	if r.must("sync", moved); r.store.Revision() != before+1 {
		t.Errorf("revision %d became %d", before, r.store.Revision())
	}
	r.settled(moved)
}

// notSaid begins the warning about the only document of a file.
const notSaid = "did not say what it would store of 1 of 1 documents that differ, so that what it fills in by itself is shown as a difference there; the first is Dataplane x of mesh m: "

// TestMeshNotAsked: a control plane that knows no dry runs is sent nothing that it could write, and one that does
// not say what it would store is asked nothing more. What cannot be told is shown as a difference, and said.
// Where the control plane only had no time, the exit code is not that of differences.
func TestMeshNotAsked(t *testing.T) {
	r := newMeshRig(t)
	r.mesh()
	f := file(t, strings.Replace(inEast, "PORT", "80", 1))
	r.must("sync", f)
	before := r.store.Revision()
	for _, c := range []struct {
		method, answer string
		status, code   int
		says           string
	}{
		{http.MethodDelete, `{"detail":"no such resource"}`, 404, 2, "knows no dry run"},
		{http.MethodDelete, `{"detail":"you may not"}`, 403, 2, "could not be asked"},
		{http.MethodDelete, `{"detail":"the disk is full"}`, 507, 1, "the disk is full"},
		{http.MethodDelete, `{"detail":"ask again"}`, 503, 1, "could not be asked"},
		{http.MethodPut, `{"detail":"you may not"}`, 403, 2, notSaid + `HTTP status 403 (message: "you may not")`},
		{http.MethodPut, `{"detail":"no such secret"}`, 400, 2, notSaid + `HTTP status 400 (message: "no such secret")`},
		{http.MethodPut, `{"detail":"it takes too long"}`, 503, 1, notSaid + `HTTP status 503 (message: "it takes too long")`},
		{http.MethodPut, `{"detail":"the disk is full"}`, 507, 1, "the disk is full"},
		{http.MethodPut, `{}`, 200, 1, "may be written"},
		{http.MethodPut, `{"dryRun":true,"verdict":"unchanged"}`, 200, 0, nothing},
		{http.MethodPut, `{"dryRun":true,"verdict":"updated"}`, 200, 2, notSaid + "the answer to the dry run has no document"},
		{http.MethodPut, `{"dryRun":true,"verdict":"updated","document":{"type":1}}`, 200, 1, "asking what would become of Dataplane x of mesh m"},
	} {
		puts := 0
		r.before = func(w http.ResponseWriter, q *http.Request) bool {
			if q.Method == http.MethodPut {
				puts++
			}
			if q.Method != c.method {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.answer))
			return true
		}
		out, code := r.run("diff", f, "--non-zero-exit-code")
		shown := code == exitDifferences || c.status == http.StatusServiceUnavailable
		if code != c.code || !strings.Contains(out, c.says) || shown != strings.Contains(out, "updating Dataplane x") || (c.status == http.StatusServiceUnavailable) != strings.Contains(out, errUnasked.Error()) || c.method == http.MethodDelete && puts > 0 {
			t.Errorf("%s %d %s: %d writes, exit code %d\n%s", c.method, c.status, c.answer, puts, code, out)
		}
	}
	if now := r.store.Revision(); now != before {
		t.Errorf("revision %d became %d", before, now)
	}
}

// dataplanes is a file of n of them, which all lack the zone.
func dataplanes(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.NewReplacer("PORT", "80", `"x"`, `"`+string(rune('a'+i))+`"`, "# _format_version\n", "---\n").Replace(inEast))
	}
	return b.String() + "# _format_version\n"
}

// TestMeshAskedInTurn: no more dry runs are asked for at the same time than the control plane lets one
// caller wait for. Those that it has no time for are counted in one warning, and the others still count.
func TestMeshAskedInTurn(t *testing.T) {
	const docs = 2 * askedAtOnce
	r := newMeshRig(t)
	r.mesh()
	f := file(t, dataplanes(docs))
	r.must("sync", f)
	var mu sync.Mutex
	together, came, inside, most := make(chan struct{}), 0, 0, 0
	r.before = func(w http.ResponseWriter, q *http.Request) bool {
		if q.Method != http.MethodPut {
			return false
		}
		mu.Lock()
		came++
		inside++
		most = max(most, inside)
		mine := together
		again := came > docs
		if came%askedAtOnce == 0 && !again {
			close(together)
			together = make(chan struct{})
		}
		mu.Unlock()
		if !again { // until as many are here as may be
			select {
			case <-mine:
			case <-q.Context().Done():
			}
		}
		mu.Lock()
		inside--
		mu.Unlock()
		if strings.HasSuffix(q.URL.Path, "/c") || strings.HasSuffix(q.URL.Path, "/e") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	}
	out, code := r.run("diff", f, "--non-zero-exit-code")
	if code != exitFailed || strings.Count(out, "meshgate:") != 1 || !strings.Contains(out, "of 2 of 8 documents") || !strings.Contains(out, "the first is Dataplane c of mesh m: ") || !strings.Contains(out, "Updated: 2") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if most != askedAtOnce {
		t.Errorf("%d were asked for at the same time", most)
	}
}

// TestNewMeshWhileBusy: a mesh that was created gets all that the file says also if the control plane has
// no time to say what it would store: half of it would be worse than a write too many.
func TestNewMeshWhileBusy(t *testing.T) {
	r := newMeshRig(t)
	r.before = func(w http.ResponseWriter, q *http.Request) bool {
		if q.Method != http.MethodPut || q.URL.RawQuery == "" {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	f := file(t, "type: Mesh\nname: m\n---\n"+dataplanes(2))
	out := r.must("sync", f)
	if !strings.Contains(out, "of 2 of 2 documents") {
		t.Error(out)
	}
	r.before = nil
	r.settled(f)
}

// TestAskedAgain: dry runs that were asked for together stand in each other's way, so that the control plane
// has no time for some. These are asked for again one at a time, by diff as by a dry run of sync, and not
// without an end.
func TestAskedAgain(t *testing.T) {
	const docs = 3 * askedAtOnce
	r := newMeshRig(t)
	r.mesh()
	r.must("sync", file(t, dataplanes(docs)))
	moved := file(t, strings.ReplaceAll(dataplanes(docs), `"port":80`, `"port":81`))
	for _, c := range []struct {
		patience, calls, code int
		args                  []string
	}{
		{1, docs + docs, 2, []string{"diff", moved, "--non-zero-exit-code"}},
		// The plan learns nothing, and afterwards all is tried.
		{2, docs + askedAtOnce + docs + docs - askedAtOnce, 0, []string{"sync", "--dry-run", moved}},
		{docs, docs + askedAtOnce, 1, []string{"diff", moved, "--non-zero-exit-code"}},
	} {
		var mu sync.Mutex
		refused, calls := map[string]int{}, 0
		r.before = func(w http.ResponseWriter, q *http.Request) bool {
			if q.Method != http.MethodPut {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			calls++
			if refused[q.URL.Path] == c.patience {
				return false
			}
			refused[q.URL.Path]++
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		out, code := r.run(c.args...)
		if code != c.code || calls != c.calls || strings.Contains(out, "meshgate:") != (c.patience > 1) {
			t.Errorf("%v: exit code %d after %d calls\n%s", c.args, code, calls, out)
		}
	}
}
