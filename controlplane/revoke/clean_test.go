package revoke

import (
	"testing"
	"testing/synctest"

	"github.com/meshgate/meshgate/filter/contract"
)

// TestStopDuringARefill: an orderly end waits for the records that are being written.
// Cancelled writes could be carried out later, and the next control plane would void
// everything in Redis without need.
func TestStopDuringARefill(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		w.mint("a", false)
		w.settles(t)
		was := w.trust().Epoch
		redis.be(waiting)
		w.r.Refill(scope, contract.HashToken([]byte("a")))
		synctest.Wait()
		closed := async(func() error { w.close(w.r); return nil })
		synctest.Wait()
		redis.be(fine)
		close(redis.gate)
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
		w.open(nil)
		w.settles(t)
		if now := w.trust().Epoch; now != was {
			t.Error("an orderly end voids the records in redis")
		}
	})
}
