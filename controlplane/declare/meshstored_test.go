package declare

import (
	"encoding/json"
	"net/http"
	"strings"
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

// TestMeshNotAsked: a control plane that knows no dry runs is sent nothing that it could write, and one that does
// not say what it would store is asked nothing more. What cannot be told is shown as a difference, and said.
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
		{http.MethodPut, `{"detail":"you may not"}`, 403, 2, "updating Dataplane"},
		{http.MethodPut, `{}`, 200, 1, "may be written"},
		{http.MethodPut, `{"dryRun":true,"verdict":"unchanged"}`, 200, 0, nothing},
		{http.MethodPut, `{"dryRun":true,"verdict":"updated"}`, 200, 2, "updating Dataplane"},
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
		if code != c.code || !strings.Contains(out, c.says) || c.method == http.MethodDelete && puts > 0 {
			t.Errorf("%s %d %s: %d writes, exit code %d\n%s", c.method, c.status, c.answer, puts, code, out)
		}
	}
	if now := r.store.Revision(); now != before {
		t.Errorf("revision %d became %d", before, now)
	}
}
