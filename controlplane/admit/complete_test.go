package admit_test

import (
	"fmt"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

func zoned(zone string) *mesh.Dataplane {
	d := proxy(1)
	d.Networking.Inbound[0].Tags[mesh.TagZone] = zone
	return d
}

func zoneOf(r *model.Resource) string {
	return r.Spec.(*mesh.Dataplane).Networking.Inbound[0].Tags[mesh.TagZone]
}

// TestCompletedDocuments: what this control plane knows is written whatever the author says, is judged with
// the rest, is seen by rules of the mesh, and makes no difference to what a node sends again.
func TestCompletedDocuments(t *testing.T) {
	g, s := documents(t)
	g.Complete(mesh.Dataplanes, mesh.InZone("east"))
	put(t, g, mesh.Meshes, "", "m", &mesh.Mesh{Constraints: &mesh.Constraints{DataplaneProxy: &mesh.Membership{
		Requirements: []mesh.TagRule{{Tags: mesh.Tags{mesh.TagZone: "east"}}},
	}}})
	for name, d := range map[string]*mesh.Dataplane{"none": proxy(1), "false": zoned("west"), "true": zoned("east")} {
		out, _, err := g.PutDocument(t.Context(), mesh.Dataplanes, "m", "d", d)
		if err != nil || zoneOf(out.Resource) != "east" {
			t.Errorf("%s: %v", name, err)
		}
	}
	before := s.Revision()
	node := model.WithActor(t.Context(), model.Node("m.d"))
	if _, _, err := g.PutDocument(node, mesh.Dataplanes, "m", "d", proxy(1)); err != nil || s.Revision() != before {
		t.Errorf("the same again: %v, revision %d after %d", err, s.Revision(), before)
	}
	full := proxy(1)
	for i := range mesh.MaxTags - 1 {
		full.Networking.Inbound[0].Tags[fmt.Sprint("t", i)] = "v"
	}
	if err := g.CheckDocument(mesh.Dataplanes, full); !fault.Is(err, fault.Invalid) {
		t.Errorf("one tag too many with that of the zone: %v", err)
	}
	if got := g.CompleteDocument(mesh.Dataplanes, proxy(1)).(*mesh.Dataplane); got.Networking.Inbound[0].Tags[mesh.TagZone] != "east" {
		t.Error("it is not shown how it is stored")
	}
}

// TestCompleteStored: documents that were stored by another control plane are completed once, also those
// that would be refused today.
func TestCompleteStored(t *testing.T) {
	g, s := documents(t)
	put(t, g, mesh.Meshes, "", "m", &mesh.Mesh{})
	const many = 1100 // more than fit one transaction
	for i := range many {
		storetest.Place(t, s, mesh.Dataplanes, "m", fmt.Sprint("d", i), []any{proxy(1), zoned("west"), zoned("east"), proxy(70_000)}[i%4])
	}
	if err := g.CompleteStored(t.Context(), mesh.Dataplanes, "m"); err != nil {
		t.Fatal(err)
	}
	before := s.Revision()
	g.Complete(mesh.Dataplanes, mesh.InZone("east"))
	for range 2 {
		if err := g.CompleteStored(t.Context(), mesh.Dataplanes, "m"); err != nil {
			t.Fatal(err)
		}
		if wrote := s.Revision() - before; wrote != 2 {
			t.Errorf("%d transactions", wrote)
		}
	}
	err := s.View(t.Context(), func(r store.Reader) error {
		list, err := r.List(mesh.Dataplanes, store.Query{Scope: "m"})
		for i, d := range list {
			if zoneOf(d) != "east" {
				t.Fatalf("%d is in zone %q", i, zoneOf(d))
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	g.Hook(mesh.Dataplanes, &hook{})
	if err := g.CompleteStored(t.Context(), mesh.Dataplanes, "m"); !fault.Is(err, fault.Internal) {
		t.Errorf("a kind with hooks: %v", err)
	}
}
