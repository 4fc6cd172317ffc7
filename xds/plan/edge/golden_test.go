package edge

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/e2e/golden"
	"github.com/meshgate/meshgate/xds/plan/plantest"
)

// TestGolden plans testdata/<name>.in.yaml and compares the result with
// testdata/<name>.golden.yaml. -update writes the golden file.
func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	for _, in := range inputs {
		t.Run(filepath.Base(in), func(t *testing.T) {
			result := NewPlanner(testParams).Plan(loadWorld(t, in).state())
			got := render(t, result)
			path := strings.Replace(in, ".in.yaml", ".golden.yaml", 1)
			golden.Compare(t, path, got)
			validate(t, result.Set)
		})
	}
}

// loadWorld stores what a file lists by kind.
func loadWorld(t *testing.T, path string) *world {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lists map[string][]json.RawMessage
	if err := yaml.Unmarshal(text, &lists); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	for _, k := range []*model.Kind{
		gateway.Certificates, gateway.SNIs, gateway.CACertificates, gateway.Upstreams, gateway.Targets,
		gateway.Services, gateway.Routes, gateway.Consumers, gateway.Plugins,
	} {
		for i, raw := range lists[k.Path] {
			var head struct {
				ID string `json:"id"`
			}
			spec := k.New()
			for _, into := range []any{&head, spec} {
				if err := json.Unmarshal(raw, into); err != nil {
					t.Fatal(err)
				}
			}
			w.put(k, head.ID, int64(i+1), spec)
		}
	}
	return w
}

// render shows a result as YAML in a fixed order.
func render(t *testing.T, r Result) []byte {
	t.Helper()
	out := plantest.Tree(t, r.Set)
	out["secrets"] = r.Set.Secrets()
	for _, f := range r.Failures {
		out["failures"] = append(asList(out["failures"]), f.Cell+": "+f.Err.Error())
	}
	text, err := yaml.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func asList(v any) []any {
	l, _ := v.([]any)
	return slices.Clip(l)
}
