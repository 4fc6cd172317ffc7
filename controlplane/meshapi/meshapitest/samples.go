// Package meshapitest has documents of every kind of the mesh API, for tests.
package meshapitest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy/policytest"
)

// Mesh is the name of the mesh in which the samples are.
const Mesh = "m"

// Samples returns valid documents of a kind, without names: those of policies are the inputs of
// their golden files, those of other kinds are in testdata/kinds of the mesh API. root is the
// directory of the module.
func Samples(t testing.TB, root string, k *model.Kind) (out []map[string]any) {
	t.Helper()
	var texts [][]byte
	if k.Document.Policy {
		for _, s := range policytest.Samples(t, filepath.Join(root, "xds", "policy"), k) {
			texts = append(texts, s.Text)
		}
	} else {
		raw, err := os.ReadFile(filepath.Join(root, "controlplane", "meshapi", "testdata", "kinds", strings.ToLower(k.Document.Type)+".yaml")) //nolint:gosec // a test names the directory
		if err != nil {
			t.Fatalf("%s has no samples: %v", k.Document.Type, err)
		}
		texts = append(texts, raw)
	}
	for _, text := range texts {
		for _, part := range bytes.Split(text, []byte("\n---\n")) {
			var d map[string]any
			if err := yaml.Unmarshal(part, &d); err != nil {
				t.Fatal(err)
			}
			if delete(d, "mesh"); k.Scoping == model.Mesh {
				d["mesh"] = Mesh
			}
			out = append(out, d)
		}
	}
	return out
}
