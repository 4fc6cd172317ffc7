package declare

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/cli/clitest"
	"github.com/meshgate/meshgate/controlplane/dryrun/dryruntest"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/xds/policy/all"
)

// meshRig is a control plane with its real mesh API, whose zone has the name east.
type meshRig struct {
	t     *testing.T
	url   string
	store store.Store
	gate  *admit.Gate
	// before, if set, may answer a request in place of the API.
	before func(w http.ResponseWriter, r *http.Request) bool
}

func newMeshRig(t *testing.T) *meshRig {
	t.Helper()
	s := memstore.New()
	kinds := slices.Concat(mesh.Kinds(), all.Kinds())
	gate := admit.New(s, &admittest.Revoker{}, kinds, time.Now)
	gate.Complete(mesh.Dataplanes, mesh.InZone("east"))
	r := &meshRig{t: t, store: s, gate: gate.As(model.System("test"))}
	api := meshapi.Handler(meshapi.Options{Kinds: kinds, Store: s, Writer: r.gate, DryRun: dryruntest.New(t, s)})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if r.before == nil || !r.before(w, q) {
			api.ServeHTTP(w, q)
		}
	}))
	r.url = server.URL
	t.Cleanup(func() {
		server.Close()
		if err := s.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return r
}

func (r *meshRig) run(args ...string) (string, int) {
	r.t.Helper()
	c := MeshCommand(slices.Concat(mesh.Kinds(), all.Kinds()))
	out, err := clitest.Execute(r.t, c, append([]string{"--mesh-addr", r.url}, args...)...)
	if err != nil {
		out += err.Error()
	}
	return out, clitest.Code(err)
}

func (r *meshRig) must(args ...string) string {
	r.t.Helper()
	out, code := r.run(args...)
	if code != 0 {
		r.t.Fatalf("%v: exit code %d\n%s", args, code, out)
	}
	return out
}

// nothing is the output of a run that has nothing to do.
const nothing = "Summary:\n  Created: 0\n  Updated: 0\n  Deleted: 0\n"

// shop is a mesh whose authority is in a secret of its own.
const shop = `# the mesh comes after its policies here
type: Timeout
mesh: shop
name: all
sources: [{match: {mesh.io/service: "*"}}]
destinations: [{match: {mesh.io/service: "*"}}]
conf: {connectTimeout: 5s}
---
type: Mesh
name: shop
mtls:
  enabledBackend: ca
  backends:
  - name: ca
    type: provided
    conf: {cert: {secret: cert}, key: {secret: key}}
---
- {type: Secret, mesh: shop, name: cert, data: YQ==}
- {type: Secret, mesh: shop, name: key, data: Yg==}
---
type: MeshTrafficPermission
mesh: shop
name: web
labels: {team: a}
spec:
  targetRef: {kind: Mesh}
  from:
  - targetRef: {kind: Mesh}
    default: {action: Allow}
`

// TestMeshSync: documents come in the order in which they need each other, and nothing is left
// to do. What the files do not name is deleted only in their meshes.
func TestMeshSync(t *testing.T) {
	r := newMeshRig(t)
	r.must("sync", file(t, "type: Mesh\nname: theirs\n---\ntype: Timeout\nmesh: theirs\nname: t\nsources: [{match: {mesh.io/service: '*'}}]\ndestinations: [{match: {mesh.io/service: '*'}}]\nconf: {connectTimeout: 5s}\n# _format_version\n"))
	f := file(t, shop+"# _format_version\n")
	if out := r.must("sync", f, "--dry-run"); strings.Count(out, "it can be tried when") != 5 || !strings.Contains(out, "Created: 5") || strings.Contains(r.must("dump"), "shop") {
		t.Error(out)
	}
	out := r.must("sync", f, "--parallelism", "1")
	check(t, "mesh", strings.TrimPrefix(out, "meshgate: "+textInitial("shop")+"\n"))
	if strings.Contains(out, "YQ==") {
		t.Error("a secret is shown")
	}
	if out := r.must("diff", f, "--non-zero-exit-code"); out != nothing {
		t.Error(out)
	}
	dump := r.must("dump", "--with-secrets")
	for range 2 {
		if again := r.must("dump", "--with-secrets"); again != dump {
			t.Errorf("%s\n%s", dump, again)
		}
	}
	for _, text := range []string{dump, r.must("dump", "--with-secrets", "--format", "json")} {
		if out := r.must("sync", file(t, text+"# _format_version\n"), "--with-secrets", "--all-meshes"); out != nothing {
			t.Error(out)
		}
	}
	if dump := r.must("dump", "--mesh", "theirs"); strings.Contains(dump, "shop") || !strings.Contains(dump, "theirs") {
		t.Error(dump)
	}
	less := file(t, strings.ReplaceAll(shop[strings.Index(shop, "---"):], "action: Allow", "action: Deny")+"# _format_version\n")
	before := r.must("dump")
	if out := r.must("sync", less, "--dry-run"); !strings.Contains(out, "deleting Timeout all of mesh shop\n   deleted;") || r.must("dump") != before {
		t.Error(out)
	}
	if out := r.must("sync", less); !strings.HasSuffix(out, "Created: 0\n  Updated: 1\n  Deleted: 1\n") {
		t.Error(out)
	}
	if dump := r.must("dump"); !strings.Contains(dump, "mesh: theirs") || strings.Contains(dump, "type: Secret") || strings.Contains(dump, "connectTimeout: 5s\ndestinations:\n  - match:\n      mesh.io/service: '*'\nmesh: shop") {
		t.Error(dump)
	}
	if out := r.must("sync", less, "--all-meshes"); !strings.Contains(out, "deleting Mesh theirs") {
		t.Error(out)
	}
}

// TestMeshTexts: what is wrong with documents is said before anything is written.
func TestMeshTexts(t *testing.T) {
	r := newMeshRig(t)
	var all strings.Builder
	for _, text := range []string{
		"type: Timeot\nname: a\nmesh: m\n",
		"type: Timeout\nname: y\nmesh: m\n",
		"type: Timeout\nname: a\n",
		"name: a\n",
		"type: Mesh\nname: a\nmtsl: {}\n",
		"type: Mesh\nname: a\n---\ntype: Mesh\nname: a\n",
		"type: Secret\nname: a\nmesh: m\ndata: CONCEALED+++\n",
		"type: Timeout\nmesh: m\nname: a\nconf: {connectTimeout: 5s}\n",
		"type: [\n", "\n",
	} {
		out, code := r.run("sync", file(t, text+"# _format_version\n"))
		if code != 1 {
			t.Errorf("%q: exit code %d %s", text, code, out)
		}
		all.WriteString(places.ReplaceAllString(out, "mesh.yaml") + "\n")
	}
	check(t, "meshproblems", all.String())
	if dump := r.must("dump"); dump != "" {
		t.Error(dump)
	}
}

// TestConcealed: secrets that the caller may not see are no differences.
func TestConcealed(t *testing.T) {
	kinds := documented(mesh.Kinds())
	doc := func(data string) *meshDoc {
		docs, err := parseDocs(t.Context(), []source{{"f", []byte("type: Secret\nmesh: m\nname: a\ndata: " + data + "\n")}}, kinds)
		if err != nil {
			t.Fatal(err)
		}
		return docs[0]
	}
	is := doc("YQ==")
	is.values["data"] = model.Concealed
	p := &meshPlanner{wanted: []*meshDoc{doc("YQ==")}, current: []*meshDoc{is}, prune: func(*meshDoc) bool { return true }}
	if plan := p.compare(); len(plan.Ops) != 0 || len(plan.Warnings) != 1 {
		t.Errorf("%v", plan)
	}
}

// TestMeshWarnings: whoever creates a mesh hears of the policies that it begins with, and whoever
// dumps documents of what the tool does not know.
func TestMeshWarnings(t *testing.T) {
	r := newMeshRig(t)
	warning := textInitial("new")
	if out := r.must("sync", file(t, "type: Mesh\nname: new\n# _format_version\n")); !strings.Contains(out, warning) {
		t.Error(out)
	}
	if out := r.must("sync", "--json-output", file(t, "type: Mesh\nname: newer\n# _format_version\n")); !strings.Contains(out, `"warnings": [
    "`+textInitial("newer")) {
		t.Error(out)
	}
	newer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		items := ""
		if q.URL.Path == "/meshes" {
			items = `{"type":"Mesh","name":"m","ofTomorrow":{"a":1}}`
		}
		_, _ = w.Write([]byte(`{"items":[` + items + `],"total":1,"next":null}`))
	}))
	defer newer.Close()
	r.url = newer.URL
	if out := r.must("dump"); !strings.Contains(out, "Mesh m: ofTomorrow: ") {
		t.Error(out)
	}
}
