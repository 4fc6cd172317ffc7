package publish

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/policy/meshtokenauth"
)

// follows demands that the control plane other is followed, or that nothing is left of it.
func (b *between) follows(when string, want bool) {
	b.t.Helper()
	time.Sleep(time.Second) // virtual: rounds are at most 100 ms apart
	synctest.Wait()
	if got := slices.Contains(b.loop.Planes(), ControlPlaneScope("other")); got != want {
		b.t.Errorf("%s: followed: %t", when, got)
	}
	if got := b.loop.HasPlugin("other", outsidePlugin); got != want {
		b.t.Errorf("%s: its plugin is known: %t", when, got)
	}
}

// delete deletes resources of mesh m.
func (b *between) delete(keys ...model.Key) {
	b.t.Helper()
	kinds := map[string]*model.Kind{mesh.Meshes.Name: mesh.Meshes, mesh.Dataplanes.Name: mesh.Dataplanes, meshtokenauth.Kind.Name: meshtokenauth.Kind}
	_, err := b.db.Update(b.t.Context(), model.Config, func(tx store.Tx) error {
		for _, k := range keys {
			if err := tx.Delete(kinds[k.Kind], k.Scope, k.Name, 0); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// A deleted control plane is followed until its last gateway has left. Otherwise its view would stay
// in memory.
func TestDeletedControlPlaneIsForgotten(t *testing.T) {
	betweenScopes(t, func(*testing.T, *between) {}, func(_ *testing.T, b *between) {
		first, second := b.connect("cp/other/a"), b.connect("cp/other/b")
		b.follows("with two gateways", true)
		first()
		b.follows("with one gateway, not deleted", true)
		b.loop.Deleted("other")
		b.follows("deleted, with a gateway", true)
		second()
		b.follows("deleted, without gateways", false)
		b.loop.Deleted("other")
		b.loop.Deleted("nobody follows it")
		if b.connect("cp/default/a"); !slices.Contains(b.loop.Planes(), ControlPlaneScope(model.DefaultControlPlane)) {
			b.t.Error("another control plane is not followed")
		}
	})
}

// A control plane without gateways ends when it is deleted.
func TestDeletedControlPlaneWithoutGateways(t *testing.T) {
	betweenScopes(t, func(*testing.T, *between) {}, func(_ *testing.T, b *between) {
		b.connect("cp/other/a")()
		b.follows("without gateways", true)
		b.loop.Deleted("other")
		b.follows("deleted", false)
	})
}

// The mesh that looks at a deleted control plane uses its view. It is followed until the mesh ends.
func TestDeletedControlPlaneOfAMesh(t *testing.T) {
	betweenScopes(t, func(_ *testing.T, b *between) { b.demand("other") }, func(_ *testing.T, b *between) {
		leave := b.connect("m.web-1")
		b.expect("at the start", "m.web-1", "checks")
		b.connect("cp/other/a")()
		b.loop.Deleted("other")
		b.follows("a mesh looks at it", true)
		b.expect("deleted", "m.web-1", "checks")
		b.delete(
			model.Key{Kind: meshtokenauth.Kind.Name, Scope: "m", Name: "x"}, model.Key{Kind: mesh.Dataplanes.Name, Scope: "m", Name: "web-1"},
			model.Key{Kind: mesh.Dataplanes.Name, Scope: "m", Name: "free-1"}, model.Key{Kind: mesh.Meshes.Name, Name: "m"},
		)
		leave()
		b.follows("the mesh has ended", false)
	})
}

// A dry run that waits for a control plane goes on when that ends: its view shows nothing newer, so the
// dry run would wait until its patience is over.
func TestReachedEndsWithTheControlPlane(t *testing.T) {
	betweenScopes(t, func(*testing.T, *between) {}, func(t *testing.T, b *between) {
		b.connect("cp/other/a")()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		reached := make(chan error, 1)
		go func() { reached <- b.loop.Reached(ctx, b.loop.Latest()+1, []string{ControlPlaneScope("other")}) }()
		synctest.Wait()
		b.loop.Deleted("other")
		if err := <-reached; err != nil {
			t.Errorf("whoever waits for a control plane that ends gets %v", err)
		}
	})
}
