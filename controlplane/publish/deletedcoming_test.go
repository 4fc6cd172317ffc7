package publish

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/plan/edge"
	"github.com/meshgate/meshgate/xds/policy/meshtokenauth"
)

// slowPorts holds back the parameters of gateways once they are read.
type slowPorts struct {
	ports
	open chan struct{}
}

func (s slowPorts) Gateway(ctx context.Context, node string) (edge.Params, error) {
	p, err := s.ports.Gateway(ctx, node)
	<-s.open
	return p, err
}

// forgotten demands that the loop keeps no name of a control plane that somebody was about to follow.
func (b *between) forgotten(when string) {
	b.t.Helper()
	b.loop.mu.Lock()
	defer b.loop.mu.Unlock()
	if n := len(b.loop.coming); n > 0 {
		b.t.Errorf("%s: %d names are kept", when, n)
	}
}

// followDeleted follows the control plane other for a gateway, while the deletion is told.
func (b *between) followDeleted(when string, let func()) {
	b.t.Helper()
	followed := make(chan error, 1)
	go func() { followed <- b.loop.Follow(b.t.Context(), "cp/other/a") }()
	synctest.Wait()
	b.loop.Deleted("other")
	let()
	if err := <-followed; fault.CodeOf(err) != fault.NotFound {
		b.t.Errorf("%s: whoever follows it gets %v", when, err)
	}
	b.follows(when, false)
	b.forgotten(when)
}

// A control plane that is deleted while somebody is about to follow it is not followed. Otherwise nobody
// would ever end it.
func TestControlPlaneDeletedWhileItIsOpened(t *testing.T) {
	betweenScopes(t, func(*testing.T, *between) {}, func(_ *testing.T, b *between) {
		b.rows.hold("other", true)
		b.followDeleted("its view is read", func() { b.rows.hold("other", false) })
		open := make(chan struct{})
		b.loop.Parameters = slowPorts{open: open}
		b.followDeleted("the gateway is known", func() { close(open) })
		b.connect("cp/other/a")()
		b.follows("who comes later", true)
	})
}

// The mesh whose policies ask for a control plane that is deleted meanwhile looks at it until the mesh
// ends.
func TestControlPlaneDeletedWhileAMeshWaitsForIt(t *testing.T) {
	betweenScopes(t, func(_ *testing.T, b *between) { b.demand("other") }, func(_ *testing.T, b *between) {
		b.rows.hold("other", true)
		connected := make(chan func(), 1)
		go func() {
			leave, err := b.loop.Connect(b.t.Context(), "m.web-1", false)
			if err != nil {
				b.t.Error(err)
			}
			connected <- leave
		}()
		synctest.Wait()
		b.loop.Deleted("other")
		b.rows.hold("other", false)
		leave := <-connected
		b.follows("a mesh looks at it", true)
		b.expect("deleted", "m.web-1", "checks")
		b.delete(
			model.Key{Kind: meshtokenauth.Kind.Name, Scope: "m", Name: "x"}, model.Key{Kind: mesh.Dataplanes.Name, Scope: "m", Name: "web-1"},
			model.Key{Kind: mesh.Dataplanes.Name, Scope: "m", Name: "free-1"}, model.Key{Kind: mesh.Meshes.Name, Name: "m"},
		)
		leave()
		b.follows("the mesh has ended", false)
		b.forgotten("at the end")
	})
}

// Whoever has missed deletions can ask which control planes are followed, or are about to be.
func TestControlPlanesAreListed(t *testing.T) {
	betweenScopes(t, func(*testing.T, *between) {}, func(t *testing.T, b *between) {
		lists := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			if got := b.loop.ControlPlanes(); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		lists("at the start", model.DefaultControlPlane)
		b.rows.hold("other", true)
		followed := make(chan error, 1)
		go func() { followed <- b.loop.Follow(t.Context(), "cp/other/a") }()
		lists("another one is opened", model.DefaultControlPlane, "other")
		b.rows.hold("other", false)
		if err := <-followed; err != nil {
			t.Fatal(err)
		}
		b.connect("m.free-1")
		lists("it is followed", model.DefaultControlPlane, "other")
		b.loop.Deleted("other")
		lists("it is deleted", model.DefaultControlPlane)
	})
}
