package policytest

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
)

// example is a fenced block of YAML or JSON.
var example = regexp.MustCompile("(?s)```(?:yaml|json)\n(.*?)```")

// Examples returns the examples of a README. There has to be one.
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

// Decode reads a spec from a resource in YAML or JSON. Fields that the spec does
// not have are an error, and so is another type.
func Decode(t *testing.T, k *model.Kind, text []byte) (name string, spec any) {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := yaml.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	var head struct{ Type, Mesh, Name string }
	if err := yaml.Unmarshal(text, &head); err != nil {
		t.Fatal(err)
	}
	if head.Type != k.Document.Type || head.Mesh == "" || head.Name == "" {
		t.Fatalf("head is %+v, want type %s, a mesh and a name", head, k.Document.Type)
	}
	for _, meta := range []string{"type", "mesh", "name"} {
		delete(fields, meta)
	}
	d := json.NewDecoder(bytes.NewReader(marshal(t, fields)))
	d.DisallowUnknownFields()
	spec = k.New()
	if err := d.Decode(spec); err != nil {
		t.Fatal(err)
	}
	return head.Name, spec
}

// Resource reads a resource that has to be valid, as a view shows it.
func Resource(t *testing.T, k *model.Kind, text []byte) []*view.Policy {
	t.Helper()
	name, spec := Decode(t, k, text)
	k.Document.Default(spec)
	if vs := k.Document.Validate(spec); len(vs) > 0 {
		t.Fatalf("not valid: %v", vs)
	}
	return []*view.Policy{Of(k, name, spec)}
}

// Of is a policy of a spec.
func Of(k *model.Kind, name string, spec any) *view.Policy {
	p := &view.Policy{Kind: k, Name: name, Version: 1, Spec: spec}
	if s, ok := spec.(model.Selecting); ok {
		p.Sources, p.Destinations = tags(s.SelectedSources()), tags(s.SelectedDestinations())
	}
	return p
}

func tags(sets []map[string]string) []mesh.Tags {
	var out []mesh.Tags
	for _, s := range sets {
		out = append(out, s)
	}
	return out
}
