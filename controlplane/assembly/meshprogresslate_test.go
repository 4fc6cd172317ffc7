package assembly

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/meshca"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// TestSilenceCountsOnceTheRootIsShown: nobody can answer what is not published. A root that
// proxies are shown late, because the mesh could not be planned, gets the whole grace and
// the whole wait for silent proxies, and who holds it up is told.
func TestSilenceCountsOnceTheRootIsShown(t *testing.T) {
	rotate(t, memstore.NewStatus(), []string{"d"}, func(r *rotating) {
		r.publish("d")
		r.ask()
		sub := r.cp.snapshots.Subscribe("m.d")
		defer sub.Close()
		r.publish("d")
		r.confirm(sub)
		r.ask()
		time.Sleep(rotationGrace + rotationSilence + 30*time.Second)
		synctest.Wait()
		r.publish("d")
		r.expect("the root goes out", meshca.PhaseTrusting, 0)
		if r.held.Load() != 0 {
			t.Error("it is told of a proxy that has the grace still")
		}
		time.Sleep(rotationGrace)
		synctest.Wait()
		r.expect("the grace is over", meshca.PhaseTrusting, 0)
		if r.held.Load() == 0 {
			t.Error("it is not told that the mesh is held up")
		}
		time.Sleep(rotationSilence)
		synctest.Wait()
		r.expect("the proxy is silent", meshca.PhaseSigning, 1)
	})
}
