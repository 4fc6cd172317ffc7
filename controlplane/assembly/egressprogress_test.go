package assembly

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshca"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// withEgress has the zone have an egress out, and the mesh be left through egresses or not.
func (r *rotating) withEgress(through bool) {
	r.cp.cfg = &config.Config{}
	storetest.Place(r.t, r.cp.store, mesh.ZoneEgresses, "", "out", &mesh.ZoneEgress{})
	storetest.Place(r.t, r.cp.store, mesh.ZoneEgresses, "", "theirs", &mesh.ZoneEgress{Zone: "east"})
	storetest.Place(r.t, r.cp.store, mesh.Meshes, "", "m", &mesh.Mesh{
		Routing: &mesh.Routing{ZoneEgress: through},
		MTLS:    &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: mesh.AuthorityBuiltin}}},
	})
	r.cp.mesh.insights.Expect(mesh.ZoneNodeID(mesh.ProxyEgress, "out"))
}

// publishZone publishes the newest revision to the egress, too.
func (r *rotating) publishZone() {
	revision := r.cp.store.Revision()
	set := resource.NewSet([]*resource.Resource{resource.New(resource.Secret, mesh.SecretCA("m"), []byte{byte(revision)})}, nil)
	r.cp.snapshots.Announce(snapshot.Publication{
		Scope: publish.ZoneScope, Revision: revision, Sets: map[string]*resource.Set{mesh.ZoneNodeID(mesh.ProxyEgress, "out"): set},
	})
	synctest.Wait()
}

// TestRotationWaitsForEgresses: no authority signs, and no root is removed, before the egresses have
// confirmed that through which a mesh is left. Nobody waits for those of another zone.
func TestRotationWaitsForEgresses(t *testing.T) {
	rotate(t, memstore.NewStatus(), []string{"d"}, func(r *rotating) {
		r.withEgress(true)
		r.publish("d")
		r.publishZone()
		r.ask()
		sub, egress := r.cp.snapshots.Subscribe("m.d"), r.cp.snapshots.Subscribe(mesh.ZoneNodeID(mesh.ProxyEgress, "out"))
		defer sub.Close()
		r.publish("d")
		r.publishZone()
		r.confirm(sub)
		r.confirm(egress)
		r.cp.mesh.insights.Issued("m", "d", "ca", time.Now().Add(meshca.WorkloadLife), time.Now())
		r.cp.mesh.insights.Issued(mesh.ZoneNodeScope(mesh.ProxyEgress), "out", "ca", time.Now().Add(meshca.WorkloadLife), time.Now())
		r.ask()
		r.publish("d")
		r.confirm(sub)
		r.publishZone()
		r.expect("the egress has not confirmed", meshca.PhaseTrusting, 0)
		r.confirm(egress)
		r.expect("it trusts the new root", meshca.PhaseSigning, 1)
		r.publish("d")
		r.confirm(sub)
		r.publishZone()
		egress.Close()
		synctest.Wait()
		r.expect("the egress has left with its certificate", meshca.PhaseSigning, 1)
		egress = r.cp.snapshots.Subscribe(mesh.ZoneNodeID(mesh.ProxyEgress, "out"))
		defer egress.Close()
		r.r.EgressesChanged()
		synctest.Wait()
		r.expect("it is back", meshca.PhaseSigning, 1)
		r.confirm(egress)
		r.expect("it has confirmed", "", 0)
	})
}

// TestRotationWithoutEgresses: a mesh that is not left through egresses waits for none.
func TestRotationWithoutEgresses(t *testing.T) {
	rotate(t, memstore.NewStatus(), []string{"d"}, func(r *rotating) {
		r.withEgress(false)
		r.publish("d")
		r.ask()
		sub := r.cp.snapshots.Subscribe("m.d")
		defer sub.Close()
		for range 2 {
			r.publish("d")
			r.confirm(sub)
			r.ask()
			r.publish("d")
			r.confirm(sub)
			r.publish("d")
			r.confirm(sub)
			r.expect("the proxy has confirmed", "", 0)
		}
	})
}

// TestZoneThatIsNotPlannedStopsNoRotation: egresses serve all meshes. A zone that stands still, perhaps
// because of another mesh, keeps a new root waiting no longer than a proxy that is silent.
func TestZoneThatIsNotPlannedStopsNoRotation(t *testing.T) {
	rotate(t, memstore.NewStatus(), []string{"d"}, func(r *rotating) {
		r.withEgress(true)
		sub, egress := r.beside(mesh.ZoneNodeID(mesh.ProxyEgress, "out"), r.publishZone)
		defer sub.Close()
		defer egress.Close()
		r.ask()
		r.publish("d")
		r.confirm(sub)
		time.Sleep(rotationGrace)
		synctest.Wait()
		r.expect("the zone is not planned", meshca.PhaseTrusting, 0)
		if r.held.Load() == 0 {
			t.Error("it is not told that the mesh is held up")
		}
		time.Sleep(rotationSilence - time.Second)
		synctest.Wait()
		r.expect("it is waited for", meshca.PhaseTrusting, 0)
		time.Sleep(time.Second)
		synctest.Wait()
		r.expect("it is still not planned", meshca.PhaseSigning, 1)
		r.publish("d")
		r.confirm(sub)
		r.expect("the egress still has a certificate of the old root", meshca.PhaseSigning, 1)
		r.publishZone()
		r.confirm(egress)
		r.expect("the zone is planned again", "", 0)
	})
}

// TestRootThatAnEgressRefuses: an egress that was offered a root and refuses it is waited for until it
// accepts it.
func TestRootThatAnEgressRefuses(t *testing.T) {
	rotate(t, memstore.NewStatus(), []string{"d"}, func(r *rotating) {
		r.withEgress(true)
		sub, egress := r.beside(mesh.ZoneNodeID(mesh.ProxyEgress, "out"), r.publishZone)
		defer sub.Close()
		defer egress.Close()
		r.ask()
		r.publish("d")
		r.publishZone()
		r.confirm(sub)
		st := egress.State()
		egress.Reject([]snapshot.Rejection{{Type: resource.Secret, Error: "no", Revision: st.Revision, Resources: []string{mesh.SecretCA("m")}}})
		egress.Confirm(st)
		time.Sleep(rotationGrace + rotationSilence + time.Minute)
		synctest.Wait()
		r.expect("the egress refuses", meshca.PhaseTrusting, 0)
		egress.Reject(nil)
		r.confirm(egress)
		r.expect("it accepts it", meshca.PhaseSigning, 1)
	})
}
