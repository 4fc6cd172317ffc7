package resource_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/xds/resource"
)

var layerNames = []string{"a", "b", "c", "d"}

// drawn draws a route table from a few names, contents and plugins.
func drawn(t *rapid.T) *resource.Resource {
	name, body := rapid.SampledFrom(layerNames).Draw(t, "name"), rapid.SampledFrom([]string{"1", "2"}).Draw(t, "body")
	r := resource.New(resource.Route, name, []byte(body))
	r.Plugins = []string{"p" + body} // they follow from the bytes
	return r
}

// twin is a table built from layers, and the same table built from copies.
type twin struct{ layered, flat *resource.Table }

func drawTwin(t *rapid.T, roots []*resource.Table) twin {
	root := rapid.SampledFrom(roots).Draw(t, "root")
	w := twin{root, root}
	for range rapid.IntRange(0, 3).Draw(t, "layers") {
		put := rapid.SliceOfN(rapid.Custom(drawn), 0, 2).Draw(t, "put")
		drop := rapid.SliceOfN(rapid.SampledFrom(layerNames), 0, 2).Draw(t, "drop")
		w = twin{w.layered.Layer(put, drop), w.flat.With(put, drop)}
	}
	return w
}

func setOf(table *resource.Table) *resource.Set {
	return resource.Assemble(map[resource.TypeURL]*resource.Table{resource.Route: table}, nil)
}

// TestLayersLookLikeTables: a layer behaves like a copied table in every respect.
func TestLayersLookLikeTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var roots []*resource.Table
		for range 2 {
			roots = append(roots, resource.TableOf(rapid.SliceOfN(rapid.Custom(drawn), 0, 4).Draw(t, "resources")))
		}
		a, b := drawTwin(t, roots), drawTwin(t, roots)
		for _, w := range []twin{a, b} {
			layered, flat := setOf(w.layered), setOf(w.flat)
			if d := cmp.Diff(flat.All(resource.Route), layered.All(resource.Route)); d != "" {
				t.Fatalf("a layer holds (-want +got):\n%s", d)
			}
			if w.layered.Len() != w.flat.Len() || (w.layered == nil) != (w.flat.Len() == 0) {
				t.Fatalf("a layer has %d resources, not %d", w.layered.Len(), w.flat.Len())
			}
			for _, name := range layerNames {
				if got, want := w.layered.Get(name), w.flat.Get(name); (got == nil) != (want == nil) || got != nil && got.Version != want.Version {
					t.Fatalf("a layer has %v under %s, not %v", got, name, want)
				}
			}
			for _, id := range []string{"p1", "p2"} {
				if layered.HasPlugin(id) != flat.HasPlugin(id) || layered.HasPlugins() != flat.HasPlugins() {
					t.Fatalf("a layer carries %s: %t", id, layered.HasPlugin(id))
				}
			}
		}
		compared(t, a, b)
	})
}

// compared checks that all comparisons of two layers give the same results as those of copies.
func compared(t *rapid.T, a, b twin) {
	want := a.flat.Differences(b.flat, 100)
	slices.Sort(want)
	got := a.layered.Differences(b.layered, 100)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Fatalf("layers differ in %v, not %v", got, want)
	}
	parts := slices.Concat(a.layered.Above(b.layered), a.layered.Root().Differences(b.layered.Root(), 100))
	for _, name := range want {
		if !slices.Contains(parts, name) {
			t.Fatalf("%s differs neither in layers nor in roots", name)
		}
	}
	var c resource.Comparer
	for range 2 {
		if same := len(want) == 0; a.layered.Same(b.layered) != same || c.Same(a.layered, b.layered) != same || setOf(a.layered).Equal(setOf(b.layered)) != same {
			t.Fatalf("layers are the same: %t", !same)
		}
	}
}

// TestLayersShareTheirRoot: unchanged resources are not copied, and a layer without
// differences is its root.
func TestLayersShareTheirRoot(t *testing.T) {
	a, b := resource.New(resource.Cluster, "a", []byte("1")), resource.New(resource.Cluster, "b", []byte("1"))
	root := resource.TableOf([]*resource.Resource{a})
	over := root.Layer([]*resource.Resource{b}, nil)
	if over.Root() != root || over == root {
		t.Fatal("a layer does not share its root")
	}
	if again := over.Layer([]*resource.Resource{b}, nil); again != over {
		t.Error("a layer that changes nothing is another table")
	}
	if back := over.Layer(nil, []string{"b"}); back != root {
		t.Error("a layer that comes to nothing is not its root")
	}
	if root.Layer(nil, []string{"a"}) != nil {
		t.Error("a layer without resources is not empty")
	}
}
