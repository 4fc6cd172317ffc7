package census_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/meshgate/meshgate/controlplane/census"
	"github.com/meshgate/meshgate/controlplane/mesh"
)

// directory lists what the census knows of the dataplanes of meshes.
func (w *world) directory(meshes ...string) (out []string) {
	w.t.Helper()
	w.must(w.census.Dataplanes(context.Background(), meshes, func(meshName string, l *census.Listed) {
		out = append(out, fmt.Sprintf("%s/%s %v %s known %t", meshName, l.Name, l.Traits.Tags, l.Traits.Gateway, l.Known))
	}))
	return out
}

// TestDirectory: it shows what was written and reported before it was asked, in the order of lists,
// and dataplanes with the same tags share them.
func TestDirectory(t *testing.T) {
	w := newWorld(t, 0)
	defer w.close()
	w.put(mesh.Meshes, "", "a", &mesh.Mesh{})
	w.put(mesh.Meshes, "", "b", &mesh.Mesh{})
	for _, name := range []string{"z", "c", "x"} {
		w.put(mesh.Dataplanes, "a", name, plain("web"))
	}
	w.put(mesh.Dataplanes, "b", "g", &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1", Gateway: &mesh.Gateway{Tags: mesh.Tags{mesh.TagService: "edge"}}}})
	w.connect("a", "x")
	want := func(when string, lines ...string) {
		t.Helper()
		if d := cmp.Diff(lines, w.directory("b", "a", "none"), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s (-want +got):\n%s", when, d)
		}
	}
	tags := fmt.Sprint(plain("web").TagSets())
	gateway := "b/g [mesh.io/service=edge] DELEGATED known false"
	want("at first", gateway, "a/c "+tags+"  known false", "a/x "+tags+"  known true", "a/z "+tags+"  known false")
	traits := map[*census.Traits]bool{}
	w.must(w.census.Dataplanes(context.Background(), []string{"a"}, func(_ string, l *census.Listed) { traits[l.Traits] = true }))
	if len(traits) != 1 {
		t.Errorf("%d traits of dataplanes with the same tags", len(traits))
	}
	w.put(mesh.Dataplanes, "a", "x", plain("api"))
	w.remove(mesh.Dataplanes, "a", "c")
	want("after changes", gateway, "a/x "+fmt.Sprint(plain("api").TagSets())+"  known true", "a/z "+tags+"  known false")
	w.end()
	w.begin()
	want("in another process", gateway, "a/x "+fmt.Sprint(plain("api").TagSets())+"  known true", "a/z "+tags+"  known false")
	w.removeMesh("a")
	want("without the mesh", gateway)
}

// TestNobodyWaitsForWhoReadsTheDirectory: dataplanes come and are counted while somebody reads.
func TestNobodyWaitsForWhoReadsTheDirectory(t *testing.T) {
	w := newWorld(t, 0)
	defer w.close()
	w.put(mesh.Meshes, "", "a", &mesh.Mesh{})
	w.put(mesh.Dataplanes, "a", "x", plain("web"))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var read []string
	w.must(w.census.Dataplanes(ctx, []string{"a"}, func(_ string, l *census.Listed) {
		read = append(read, l.Name)
		w.put(mesh.Dataplanes, "a", "y", plain("web"))
		if _, _, err := w.census.Now(ctx); err != nil {
			t.Error(err)
		}
	}))
	if len(read) != 1 {
		t.Errorf("read are %v", read)
	}
	if now := w.directory("a"); len(now) != 2 {
		t.Errorf("there are %v", now)
	}
}
