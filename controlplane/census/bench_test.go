package census_test

import (
	"fmt"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// fill makes 50,000 resources: 100 meshes with 250 dataplanes of 50 services and as many policies.
func fill(b *testing.B) *world {
	w := newWorld(b, 0)
	for m := range 100 {
		name := fmt.Sprintf("m%d", m)
		w.put(mesh.Meshes, "", name, &mesh.Mesh{})
		for d := range 250 {
			w.put(mesh.Dataplanes, name, fmt.Sprintf("d%d", d), plain(fmt.Sprintf("s%d", d%50)))
			w.put(rules, name, fmt.Sprintf("r%d", d), &rule{})
		}
	}
	w.now()
	return w
}

// BenchmarkRead is one read of everything that the API shows of a mesh.
func BenchmarkRead(b *testing.B) {
	w := fill(b)
	defer w.close()
	for b.Loop() {
		m, err := w.now().Mesh("m50")
		if err != nil || m.Insight().Dataplanes.Total != 250 || len(m.Services()) != 50 {
			b.Fatal(err)
		}
	}
}

// BenchmarkEvent is one write of a Dataplane, and what it changes.
func BenchmarkEvent(b *testing.B) {
	w := fill(b)
	defer w.close()
	for i := 0; b.Loop(); i++ {
		w.put(mesh.Dataplanes, "m50", "d7", plain(fmt.Sprintf("s%d", i%50)))
		w.now()
	}
}

// BenchmarkWrite is the same write alone, for comparison.
func BenchmarkWrite(b *testing.B) {
	w := fill(b)
	w.end()
	defer func() { w.begin(); w.close() }()
	for i := 0; b.Loop(); i++ {
		w.put(mesh.Dataplanes, "m50", "d7", plain(fmt.Sprintf("s%d", i%50)))
	}
}

// BenchmarkReport is one connection of a proxy that comes or goes.
func BenchmarkReport(b *testing.B) {
	w := fill(b)
	defer w.close()
	for i := 0; b.Loop(); i++ {
		if i%2 == 0 {
			w.connect("m50", "d7")
		} else {
			w.disconnect("m50", "d7")
		}
		w.now()
	}
}

// BenchmarkStart is the count of everything at the start.
func BenchmarkStart(b *testing.B) {
	w := fill(b)
	defer w.close()
	for b.Loop() {
		w.end()
		w.begin()
		w.now()
	}
}
