package sidecar_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/e2e/golden"
	"github.com/meshgate/meshgate/xds/plan/plantest"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/resource"
)

// vendors matches names of other products, which no configuration may contain.
var vendors = regexp.MustCompile(`(?i)\b(kuma|kong|istio|consul|linkerd)`)

// scenario is a mesh, and the proxies whose sets the golden file shows.
type scenario struct {
	name  string
	shown []string
	setup func(*world)
}

// TestGolden compares whole sets with testdata/<name>.golden.yaml; -update writes the file.
// Every set is also coherent and passes Envoy's own validation.
func TestGolden(t *testing.T) {
	limit := make(chan struct{}, 2)
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			limit <- struct{}{}
			defer func() { <-limit }()
			w := newWorld(t)
			s.setup(w)
			w.settle()
			for _, name := range s.shown {
				if !w.planner.Join(name) {
					t.Fatalf("%s did not join", name)
				}
			}
			w.settle()
			sets := map[string]any{}
			for _, name := range s.shown {
				set := w.planner.Set(name)
				sets[name] = tree(t, w, name, set)
				validate(t, set)
			}
			text, err := yaml.Marshal(sets)
			if err != nil {
				t.Fatal(err)
			}
			if word := vendors.Find(text); word != nil {
				t.Errorf("the wire shows %q", word)
			}
			golden.Compare(t, filepath.Join("testdata", s.name+".golden.yaml"), text)
		})
	}
}

// tree returns a set as golden files show it: by type, ordered by name.
func tree(t *testing.T, w *world, name string, set *resource.Set) map[string]any {
	t.Helper()
	out := plantest.Tree(t, set)
	if secrets := set.Secrets(); secrets != nil {
		out["secrets"] = secrets
	}
	var failures []any
	for _, f := range w.planner.Failures(name) {
		failures = append(failures, f.Cell+": "+f.Err.Error())
	}
	if failures != nil {
		out["failures"] = failures
	}
	return out
}

// apply stores a policy from its document.
func (w *world) apply(t *testing.T, text string) {
	t.Helper()
	var head struct{ Type string }
	if err := yaml.Unmarshal([]byte(text), &head); err != nil {
		t.Fatal(err)
	}
	for _, k := range all.Kinds() {
		if k.Document.Type == head.Type {
			raw, err := yaml.YAMLToJSON([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			meta, spec, err := model.DecodeDocument(k, raw)
			if err != nil {
				t.Fatal(err)
			}
			k.Document.Default(spec)
			if vs := k.Document.Validate(spec); len(vs) > 0 {
				t.Fatalf("%s is not valid: %v", meta.Name, vs)
			}
			w.put(k, meshName, meta.Name, spec)
			return
		}
	}
	t.Fatalf("no policy of type %q", head.Type)
}

// pair sets up two services, one of which calls the other.
func pair(protocol string) func(*world) {
	return func(w *world) {
		backend, web := dataplane("127.0.0.2", "backend", protocol), dataplane("127.0.0.3", "web", "http", "backend")
		backend.Networking.Inbound[0].Tags["version"] = "v1"
		backend.Networking.Inbound[0].Tags[mesh.TagZone] = "east"
		web.Networking.Inbound[0].Tags["team"] = "a"
		web.Networking.Inbound[0].Tags[mesh.TagZone] = "west"
		w.put(mesh.Dataplanes, meshName, "backend-1", backend)
		w.put(mesh.Dataplanes, meshName, "web-1", web)
	}
}

// under enables mutual TLS in the mesh.
func (w *world) under(mode string) {
	w.put(mesh.Trusts, meshName, meshName, trust("root"))
	w.put(mesh.Meshes, "", meshName, mtls(mode))
}
