package policytest

import (
	"os"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
)

// example matches a fenced block of YAML or JSON.
var example = regexp.MustCompile("(?s)```(?:yaml|json)\n(.*?)```")

// Examples returns the examples of a README, which must contain at least one.
func Examples(t *testing.T, path string) [][]byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for _, m := range example.FindAllSubmatch(text, -1) {
		out = append(out, m[1])
	}
	if len(out) == 0 {
		t.Fatalf("%s has no example", path)
	}
	return out
}

// Decode decodes a resource in YAML or JSON as the mesh API does.
func Decode(t testing.TB, k *model.Kind, text []byte) (name string, spec any) {
	t.Helper()
	raw, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	meta, spec, err := model.DecodeDocument(k, raw)
	if err != nil {
		t.Fatal(err)
	}
	if meta.Type != k.Document.Type || meta.Mesh == "" || meta.Name == "" {
		t.Fatalf("head is %+v, want type %s, a mesh and a name", meta, k.Document.Type)
	}
	return meta.Name, spec
}

// known requires that every given field of a resource is shown again. The mesh API drops
// unknown fields, so a missing one was misspelt.
func known(t testing.TB, k *model.Kind, text []byte, name string, spec any) {
	t.Helper()
	shown, err := model.EncodeDocument(&model.Resource{Kind: k, Scope: "m", Name: name, Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	var given, again any
	if err := yaml.Unmarshal(text, &given); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(shown, &again); err != nil {
		t.Fatal(err)
	}
	compareKeys(t, "", given, again)
}

func compareKeys(t testing.TB, path string, given, again any) {
	t.Helper()
	switch g := given.(type) {
	case map[string]any:
		a, _ := again.(map[string]any)
		for key, v := range g {
			if _, ok := a[key]; !ok {
				t.Errorf("field %s.%s is not known", path, key)
			} else {
				compareKeys(t, path+"."+key, v, a[key])
			}
		}
	case []any:
		a, _ := again.([]any)
		for i, v := range g {
			if i < len(a) {
				compareKeys(t, path, v, a[i])
			}
		}
	}
}

// Resource decodes a resource, which must be valid, in the form of a view.
func Resource(t testing.TB, k *model.Kind, text []byte) []*view.Policy {
	t.Helper()
	name, spec := Decode(t, k, text)
	known(t, k, text, name, spec)
	k.Document.Default(spec)
	if vs := k.Document.Validate(spec); len(vs) > 0 {
		t.Fatalf("not valid: %v", vs)
	}
	return []*view.Policy{Of(k, name, spec)}
}

// Mesh returns the mesh of golden files, in which policies find what they name.
func Mesh() *mesh.Mesh {
	return &mesh.Mesh{Tracing: backends(), Logging: sinks()}
}

// Select returns the selection of one resource, which must be valid, in [Mesh] and in a world
// without gateways.
func Select(t *testing.T, p *policy.Policy, text []byte) *policy.Selection {
	t.Helper()
	return Choose(p, Resource(t, p.Kind, text)...)
}

// Choose returns the selection of some resources, in the world of [Select].
func Choose(p *policy.Policy, chosen ...*view.Policy) *policy.Selection {
	s := &policy.Selection{Policies: chosen}
	if p.Facts != nil {
		s.Facts = p.Facts(policy.World{Mesh: Mesh(), Outside: nowhere{}}, s.Policies)
	}
	return s
}

// nowhere has no gateways.
type nowhere struct{}

// Gateway implements policy.Outside.
func (nowhere) Gateway(string) (*view.Gateway, error) { return nil, nil }

// Of returns a policy with a spec.
func Of(k *model.Kind, name string, spec any) *view.Policy {
	p := &view.Policy{Kind: k, Name: name, Version: 1, Spec: spec}
	if s, ok := spec.(model.Selecting); ok {
		p.Select(s)
	}
	return p
}
