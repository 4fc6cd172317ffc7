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
		sub, gateway := r.beside("other.g", func() { r.publishOther("other") })
		defer sub.Close()
		defer gateway.Close()
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
			if got := p.Others(name); !slices.Equal(got, want) {
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

// TestRotationWaitsForAbsentGatewaysOfOtherMeshes: after a start of the control plane, a gateway of
// another mesh has the grace to come back, as the proxies of the mesh have.
func TestRotationWaitsForAbsentGatewaysOfOtherMeshes(t *testing.T) {
	for name, comes := range map[string]bool{"one that comes": true, "one that stays away": false} {
		t.Run(name, func(t *testing.T) {
			rotate(t, memstore.NewStatus(), []string{"d"}, func(r *rotating) {
				r.knows("m", false)
				r.knows("other", true)
				storetest.Place(t, r.cp.store, mesh.Dataplanes, "other", "g", &mesh.Dataplane{Networking: &mesh.Networking{Gateway: &mesh.Gateway{Type: mesh.GatewayBuiltin}}})
				r.cp.mesh.insights.Expect("other.g")
				r.cp.mesh.insights.Issued("other", "g", "ca", time.Now().Add(meshca.WorkloadLife), time.Now())
				sub := r.cp.snapshots.Subscribe("m.d")
				defer sub.Close()
				step := func() {
					r.publish("d")
					r.publishOther("other")
					r.confirm(sub)
				}
				r.ask()
				step()
				r.ask()
				step()
				time.Sleep(time.Second)
				synctest.Wait()
				r.expect("its mesh has confirmed", meshca.PhaseTrusting, 0)
				if comes {
					gateway := r.cp.snapshots.Subscribe("other.g")
					defer gateway.Close()
					r.r.ProxiesChanged("other")
					synctest.Wait()
					r.expect("the gateway is back", meshca.PhaseTrusting, 0)
					r.confirm(gateway)
				} else {
					time.Sleep(rotationGrace)
					synctest.Wait()
				}
				r.expect("the gateway has confirmed, or its grace is over", meshca.PhaseSigning, 1)
				step()
				r.expect("nobody waits for it any more", "", 0)
			})
		})
	}
}

// TestRefusalsOfOtherMeshesAreBounded: one token of another mesh does not keep a root in force, not
// by refusing and not by coming and going. Who holds the root up is told.
func TestRefusalsOfOtherMeshesAreBounded(t *testing.T) {
	t.Run("it stays", func(t *testing.T) { refusing(t, false) })
	t.Run("it comes and goes", func(t *testing.T) { refusing(t, true) })
}

// refusing runs a rotation that a proxy of another mesh refuses.
func refusing(t *testing.T, leaves bool) {
	t.Helper()
	rotate(t, memstore.NewStatus(), []string{"d"}, func(r *rotating) {
		r.knows("m", true)
		r.knows("other", false)
		sub, thief := r.cp.snapshots.Subscribe("m.d"), r.cp.snapshots.Subscribe("other.g")
		defer sub.Close()
		step := func() {
			r.publish("d")
			r.publishOther("other")
			r.confirm(sub)
		}
		refuse := func() {
			st := thief.State()
			thief.Reject([]snapshot.Rejection{{Type: resource.Secret, Error: "no", Revision: st.Revision, Resources: []string{mesh.SecretCA("m")}}})
			thief.Confirm(st)
			synctest.Wait()
		}
		r.ask()
		step()
		r.ask()
		step()
		refuse()
		time.Sleep(rotationGrace)
		synctest.Wait()
		r.expect("it refuses the root", meshca.PhaseTrusting, 0)
		if _, refusing := (meshProgress{r.cp}).Lacking("m", r.cp.store.Revision()); r.held.Load() == 0 || !slices.Equal(refusing, []string{"other.g"}) {
			t.Errorf("%v hold it up, told is %d", refusing, r.held.Load())
		}
		for range int(rotationSilence/rotationGrace) + 1 {
			time.Sleep(rotationGrace - time.Second)
			if !leaves {
				continue
			}
			thief.Close()
			time.Sleep(time.Second)
			synctest.Wait()
			thief = r.cp.snapshots.Subscribe("other.g")
			r.r.ProxiesChanged("other")
			refuse()
		}
		synctest.Wait()
		r.expect("it has refused, gone and come for long enough", meshca.PhaseSigning, 1)
		step()
		r.expect("nobody waits for it any more", "", 0)
		thief.Close()
	})
}

// TestDataplanesAreNotTakenForThoseOfOtherMeshes: the mesh m has a dataplane other.g, and the mesh
// other one that is called g.
func TestDataplanesAreNotTakenForThoseOfOtherMeshes(t *testing.T) {
	rotate(t, memstore.NewStatus(), []string{"d", "other.g"}, func(r *rotating) {
		r.knows("m", false)
		r.knows("other", true)
		r.cp.mesh.insights.Issued("m", "other.g", "ca", time.Now().Add(meshca.WorkloadLife), time.Now())
		sub, gateway := r.cp.snapshots.Subscribe("m.d"), r.cp.snapshots.Subscribe("other.g")
		defer sub.Close()
		defer gateway.Close()
		r.publish("d")
		r.publishOther("other")
		r.confirm(gateway)
		settled := meshProgress{r.cp}.Settled("m", r.cp.store.Revision(), time.Hour)
		if settled["m.other.g"] || !settled["other.g"] {
			t.Errorf("settled are %v", settled)
		}
	})
}
