package operator

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/cli/clitest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes/nodestest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/inspect"
)

// warnings answers with fixed warnings by mesh, or fails.
type warnings struct {
	meshapi.Policies
	of  map[string][]inspect.Warned
	err error
}

func (w *warnings) Warnings(_ context.Context, name string, show func(any) error) error {
	if w.err != nil {
		return w.err
	}
	return show(inspect.WarnedList{Total: len(w.of[name]), Items: w.of[name]})
}

// serveWarnings serves one node in order, and meshes with warnings.
func serveWarnings(t *testing.T, w *warnings) (address string) {
	t.Helper()
	s := memstore.New()
	t.Cleanup(func() { _ = s.Close() })
	for name := range w.of {
		if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
			_, err := tx.Create(&model.Resource{Kind: mesh.Meshes, Name: name, Spec: &mesh.Mesh{}})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	known := nodestest.New()
	known.Documents = known.Documents[:1]
	server := httptest.NewServer(meshapi.Handler(meshapi.Options{
		Store: s, Nodes: known, Conditions: calm, Kinds: []*model.Kind{mesh.Meshes, mesh.Dataplanes}, Policies: w,
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestStatusNamesRefusing: policies that refuse everybody are named in the words of the
// warnings, other warnings are not shown, and the exit code says that nothing is wrong.
func TestStatusNamesRefusing(t *testing.T) {
	const none = "web (2 inbounds): no TrafficPermission is chosen, so everybody is refused"
	const barred = "db (1 inbounds): this is chosen, and no proxy of the mesh is among its sources, so everybody is refused"
	w := &warnings{of: map[string][]inspect.Warned{
		"quiet": {{Type: "Retry", Mesh: "quiet", Name: "mistyped", Warnings: []string{"selects nobody"}}},
		"shop": {
			{Type: "TrafficPermission", Mesh: "shop", Name: "only-egde", Warnings: []string{"selects nobody", barred}, Refusing: []string{barred}},
			{Type: "TrafficPermission", Mesh: "shop", Warnings: []string{none, "x"}, Refusing: []string{none, "x"}},
		},
	}}
	address := serveWarnings(t, w)
	got, err := clitest.Execute(t, StatusCommand(), "--address", address)
	const want = `
MESH  POLICY                       REFUSES EVERYBODY AT
shop  TrafficPermission only-egde  ` + barred + `
shop  -                            ` + none + ` (and 1 more)
`
	_, last, _ := strings.Cut(got, "refused\n")
	if diff := cmp.Diff(want, last); diff != "" || clitest.Code(err) != 0 || !strings.HasPrefix(got, "Nothing is wrong.\n") {
		t.Errorf("%v\n%s\n%s", err, got, diff)
	}
	got, err = clitest.Execute(t, StatusCommand(), "--address", address, "-o", "json")
	var doc struct{ Refusing []inspect.Warned }
	if e := json.Unmarshal([]byte(got), &doc); e != nil || clitest.Code(err) != 0 {
		t.Fatalf("%v, %v: %s", err, e, got)
	}
	if diff := cmp.Diff(w.of["shop"], doc.Refusing); diff != "" {
		t.Error(diff)
	}

	w.err = fault.New(fault.Unavailable, "too many ask")
	got, err = clitest.Execute(t, StatusCommand(), "--address", address)
	if !strings.Contains(got, "\nIt is not known which policies refuse everybody: ") || !strings.Contains(got, "too many ask") || clitest.Code(err) != 0 {
		t.Errorf("nothing is told about the policies: %v\n%s", err, got)
	}
	w.err, w.of["shop"] = nil, nil
	if got, err := clitest.Execute(t, StatusCommand(), "--address", address); strings.Contains(got, "REFUSES") || strings.Contains(got, "not known") || clitest.Code(err) != 0 {
		t.Errorf("nobody is refused: %v\n%s", err, got)
	}
}
