package assembly

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/meshca"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// TestMeshThatIsNotPlannedStopsNoOtherRotation: the gateway of a mesh that stands still gets no new root of the
// meshes that it calls. That is told when the grace is over, and keeps the new root waiting no longer than a
// proxy that is silent.
func TestMeshThatIsNotPlannedStopsNoOtherRotation(t *testing.T) {
	rotate(t, memstore.NewStatus(), []string{"d"}, func(r *rotating) {
		r.knows("m", false)
		r.knows("other", true)
		sub, gateway := r.beside("other.g", func() { r.publishOther("other") })
		defer sub.Close()
		defer gateway.Close()
		r.ask()
		r.publish("d")
		r.confirm(sub)
		p := meshProgress{r.cp}
		if got := p.Behind("m", r.cp.store.Revision()); !slices.Equal(got, []string{"the proxies of mesh other"}) {
			t.Errorf("%v are behind", got)
		}
		time.Sleep(rotationGrace)
		synctest.Wait()
		r.expect("the other mesh is not planned", meshca.PhaseTrusting, 0)
		if r.held.Load() == 0 {
			t.Error("it is not told that the mesh is held up")
		}
		time.Sleep(rotationSilence)
		synctest.Wait()
		r.expect("it is still not planned", meshca.PhaseSigning, 1)
		r.publish("d")
		r.confirm(sub)
		r.expect("it is still not planned, and no step takes anything from it", "", 0)
		r.publish("d")
		r.publishOther("other")
		if got := p.Behind("m", r.cp.store.Revision()); len(got) != 0 {
			t.Errorf("%v are behind", got)
		}
	})
}
