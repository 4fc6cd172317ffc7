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
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// publishZoneWithout publishes the newest revision to the egress, which keeps what it has of what the
// scopes stand for: those show a revision of before.
func (r *rotating) publishZoneWithout(shown uint64, scopes ...string) {
	all := []snapshot.Publication{{Scope: publish.ZoneScope, Revision: r.cp.store.Revision()}}
	for _, scope := range scopes {
		all = append(all, snapshot.Publication{Scope: scope, Revision: shown, Part: true})
	}
	r.cp.snapshots.Announce(all...)
	synctest.Wait()
}

// mendZone publishes to the egress what it has lacked since a revision.
func (r *rotating) mendZone(shown uint64, scopes ...string) {
	revision := r.cp.store.Revision()
	set := resource.NewSet([]*resource.Resource{resource.New(resource.Secret, mesh.SecretCA("m"), []byte{byte(revision)})}, nil)
	r.cp.snapshots.Announce(snapshot.Publication{
		Scope: publish.ZoneScope, Revision: revision, Since: shown + 1, Sets: map[string]*resource.Set{mesh.ZoneNodeID(mesh.ProxyEgress, "out"): set},
	})
	for _, scope := range scopes {
		r.cp.snapshots.End(scope)
	}
	synctest.Wait()
}

// TestMeshThatEgressesKeepHoldsItsRotation: egresses of which the plan has no newer state of the mesh show
// the old root, and know no other. Before a new root signs they are waited for as a silent proxy is, which
// is told; and the old root is there until they have the new one, whatever else they confirm.
func TestMeshThatEgressesKeepHoldsItsRotation(t *testing.T) {
	for scope, told := range map[string]string{
		publish.EgressScope("m"): "the egresses in respect of this mesh alone", publish.EgressesScope: "an egress that cannot listen where it is to",
	} {
		t.Run(scope, func(t *testing.T) {
			rotate(t, memstore.NewStatus(), []string{"d"}, func(r *rotating) {
				r.withEgress(true)
				sub, egress := r.beside(mesh.ZoneNodeID(mesh.ProxyEgress, "out"), r.publishZone)
				defer sub.Close()
				defer egress.Close()
				r.cp.mesh.insights.Issued(mesh.ZoneNodeScope(mesh.ProxyEgress), "out", "ca", time.Now().Add(meshca.WorkloadLife), time.Now())
				shown := r.cp.store.Revision()
				r.ask()
				step := func() {
					r.publish("d")
					r.publishZoneWithout(shown, scope)
					r.confirm(sub)
					r.confirm(egress)
				}
				step()
				if got := (meshProgress{r.cp}).Behind("m", r.cp.store.Revision()); !slices.Equal(got, []string{told}) {
					t.Errorf("%v are behind", got)
				}
				r.expect("egresses do not know the root", meshca.PhaseTrusting, 0)
				time.Sleep(rotationGrace)
				synctest.Wait()
				if r.held.Load() == 0 {
					t.Error("it is not told that the mesh is held up")
				}
				time.Sleep(rotationSilence - time.Second)
				synctest.Wait()
				r.expect("it is waited for", meshca.PhaseTrusting, 0)
				time.Sleep(time.Second)
				synctest.Wait()
				r.expect("the bound is over", meshca.PhaseSigning, 1)
				step()
				time.Sleep(time.Hour)
				synctest.Wait()
				r.expect("egresses still show the old root", meshca.PhaseSigning, 1)
				if settled := (meshProgress{r.cp}).Settled("m", r.cp.store.Revision(), time.Hour); !settled["m.d"] || settled[mesh.ZoneNodeID(mesh.ProxyEgress, "out")] {
					t.Errorf("settled are %v", settled)
				}
				r.mendZone(shown, scope)
				r.expect("the egress has not confirmed what it lacked", meshca.PhaseSigning, 1)
				r.confirm(egress)
				r.expect("it has", "", 0)
			})
		})
	}
}

// TestOldRootGoesWithItsLastCertificate: an old root that egresses keep is bounded by the lives of
// certificates, as one of a proxy that is away.
func TestOldRootGoesWithItsLastCertificate(t *testing.T) {
	rotate(t, memstore.NewStatus(), []string{"d"}, func(r *rotating) {
		r.withEgress(true)
		sub, egress := r.beside(mesh.ZoneNodeID(mesh.ProxyEgress, "out"), r.publishZone)
		defer sub.Close()
		defer egress.Close()
		shown := r.cp.store.Revision()
		r.ask()
		step := func() {
			r.publish("d")
			r.publishZoneWithout(shown, publish.EgressScope("m"))
			r.confirm(sub)
			r.confirm(egress)
		}
		step()
		time.Sleep(rotationGrace + rotationSilence)
		synctest.Wait()
		step()
		r.expect("egresses show the old root", meshca.PhaseSigning, 1)
		time.Sleep(2 * meshca.WorkloadLife)
		synctest.Wait()
		r.expect("no certificate under the old root is valid", "", 0)
	})
}

// TestMeshThatEgressesKeepStopsNoOtherRotation: what egresses keep of one mesh is the business of that
// mesh alone, and of none that is not left through egresses.
func TestMeshThatEgressesKeepStopsNoOtherRotation(t *testing.T) {
	for name, c := range map[string]struct {
		through bool
		scopes  []string
	}{
		"another mesh": {true, []string{publish.EgressScope("other")}},
		"no egress":    {false, []string{publish.EgressScope("m"), publish.EgressesScope}},
	} {
		t.Run(name, func(t *testing.T) {
			rotate(t, memstore.NewStatus(), []string{"d"}, func(r *rotating) {
				r.withEgress(c.through)
				sub, egress := r.beside(mesh.ZoneNodeID(mesh.ProxyEgress, "out"), r.publishZone)
				defer sub.Close()
				defer egress.Close()
				shown := r.cp.store.Revision()
				r.ask()
				for _, after := range []string{meshca.PhaseSigning, ""} {
					r.publish("d")
					r.publishZoneWithout(shown, c.scopes...)
					if got := (meshProgress{r.cp}).Behind("m", r.cp.store.Revision()); len(got) > 0 {
						t.Errorf("%v are behind", got)
					}
					r.confirm(sub)
					r.confirm(egress)
					r.expect("everybody has confirmed", after, map[string]int{meshca.PhaseSigning: 1}[after])
				}
			})
		})
	}
}
