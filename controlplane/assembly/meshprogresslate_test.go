package assembly

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/meshca"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
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

// refuses answers everything, and refuses a secret.
func (r *rotating) refuses(sub *snapshot.Subscription) {
	st := sub.State()
	sub.Reject([]snapshot.Rejection{{Type: resource.Secret, Error: "no", Revision: st.Revision}})
	sub.Confirm(st)
	synctest.Wait()
}

// refused runs a test with a root that the proxy d has refused for an hour.
func refused(t *testing.T, f func(r *rotating, sub *snapshot.Subscription)) {
	rotate(t, memstore.NewStatus(), []string{"d"}, func(r *rotating) {
		sub := r.cp.snapshots.Subscribe("m.d")
		defer sub.Close()
		r.publish("d")
		r.ask()
		r.publish("d")
		r.confirm(sub)
		r.ask()
		r.publish("d")
		r.refuses(sub)
		time.Sleep(time.Hour)
		synctest.Wait()
		r.expect("it is refused", meshca.PhaseTrusting, 0)
		f(r, sub)
	})
}

// TestRefusalOutlivesItsStream: a refusal stands until its proxy answers otherwise. A stream
// that breaks does not end it, as all do at once when a network fails, and neither does one
// that is new and says nothing.
func TestRefusalOutlivesItsStream(t *testing.T) {
	refused(t, func(r *rotating, sub *snapshot.Subscription) {
		sub.Close()
		r.cp.snapshots.Drop("m.d") // as the loop does
		synctest.Wait()
		r.expect("its stream broke", meshca.PhaseTrusting, 0)
		time.Sleep(rotationGrace / 2)
		sub = r.cp.snapshots.Subscribe("m.d")
		defer sub.Close()
		r.r.ProxiesChanged("m")
		synctest.Wait()
		r.expect("it is back without a set", meshca.PhaseTrusting, 0)
		r.publish("d")
		time.Sleep(time.Hour)
		synctest.Wait()
		r.expect("it is silent", meshca.PhaseTrusting, 0)
		if r.held.Load() == 0 {
			t.Error("it is not told that the mesh is held up")
		}
		r.confirm(sub)
		r.expect("it has confirmed", meshca.PhaseSigning, 1)
	})
}

// TestRefuserThatIsAway: a proxy that refused a root and stays away for the grace is waited
// for no longer.
func TestRefuserThatIsAway(t *testing.T) {
	refused(t, func(r *rotating, sub *snapshot.Subscription) {
		sub.Close()
		time.Sleep(rotationGrace - time.Second)
		synctest.Wait()
		r.expect("it may be on its way back", meshca.PhaseTrusting, 0)
		time.Sleep(time.Second)
		synctest.Wait()
		r.expect("it is away", meshca.PhaseSigning, 1)
	})
}
