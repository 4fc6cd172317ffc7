package assembly

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshca"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// knows places what others know of a mesh, with a listener or without.
func (r *rotating) knows(name string, called bool) {
	c := &mesh.Crossing{Mesh: name, Roots: []byte("roots")}
	if called {
		c.Add("door", &mesh.GatewayListener{Port: 80}, nil)
	}
	storetest.Place(r.t, r.cp.store, mesh.Crossings, "", name, c)
}

// publishOther publishes the newest revision to a proxy of another mesh.
func (r *rotating) publishOther(meshName string) {
	revision := r.cp.store.Revision()
	set := resource.NewSet([]*resource.Resource{resource.New(resource.Secret, mesh.SecretCrossing, []byte{byte(revision)})}, nil)
	r.cp.snapshots.Announce(snapshot.Publication{
		Scope: publish.MeshScope(meshName), Revision: revision, Sets: map[string]*resource.Set{meshName + ".g": set},
	})
	synctest.Wait()
}

// TestRotationWaitsForOtherMeshes: no authority signs before the gateways of other meshes have
// confirmed its root. Only their refusals of roots count.
func TestRotationWaitsForOtherMeshes(t *testing.T) {
	rotate(t, memstore.NewStatus(), []string{"d"}, func(r *rotating) {
		r.knows("m", false)
		r.knows("other", true)
		r.publish("d")
		r.publishOther("other")
		r.ask()
		sub, gateway := r.cp.snapshots.Subscribe("m.d"), r.cp.snapshots.Subscribe("other.g")
		defer sub.Close()
		defer gateway.Close()
		r.publish("d")
		r.publishOther("other")
		r.confirm(sub)
		r.confirm(gateway)
		r.cp.mesh.insights.Issued("m", "d", "ca", time.Now().Add(meshca.WorkloadLife), time.Now())
		r.ask()
		r.publish("d")
		r.confirm(sub)
		r.publishOther("other")
		r.expect("the gateway has not confirmed", meshca.PhaseTrusting, 0)
		silent, _ := meshProgress{r.cp}.Lacking("m", r.cp.store.Revision())
		if !slices.Equal(silent, []string{"other.g"}) {
			r.t.Errorf("%v keep the root waiting", silent)
		}
		st := gateway.State()
		gateway.Reject([]snapshot.Rejection{{Type: resource.Secret, Error: "no", Revision: st.Revision, Resources: []string{mesh.SecretIdentity("other")}}})
		gateway.Confirm(st)
		synctest.Wait()
		r.expect("it has its roots, and refuses what is none of the mesh's business", meshca.PhaseSigning, 1)
	})
}

// TestRotationsConcernMeshesThatKnowTheRoots: others are not waited for.
func TestRotationsConcernMeshesThatKnowTheRoots(t *testing.T) {
	rotate(t, memstore.NewStatus(), []string{"d"}, func(r *rotating) {
		p := meshProgress{r.cp}
		across := func(name string, want ...string) {
			t.Helper()
			if got := p.across(name); !slices.Equal(got, want) {
				t.Errorf("%s waits for %v, not for %v", name, got, want)
			}
		}
		across("m")
		r.knows("m", false)
		r.knows("calls", false)
		r.knows("called", true)
		across("m", "called")
		across("called", "calls", "m")
		across("unknown")
	})
}
