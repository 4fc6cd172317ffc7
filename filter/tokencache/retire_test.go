package tokencache

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// TestClosingRedisHoldsNobodyUp: what the control plane says is in force, and look-ups are answered,
// while a client of Redis cannot be closed, because a disk keeps one of its dials. The cache waits
// for it when it closes, but not for ever.
func TestClosingRedisHoldsNobodyUp(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 5) }
		l := w.live()
		l.invalidate(1)
		l.expectAck(1)
		hold := make(chan struct{})
		defer close(hold)
		w.store.closing = func() { <-hold }
		l.trust(2, contract.Trust{Epoch: testEpoch, Servers: []string{"another"}})
		l.expectAck(2)
		if n := len(w.opened); n != 2 {
			t.Errorf("%d clients were opened", n)
		}
		w.want("while the former client is being closed", w.resolve(1), contract.Found)
		began := time.Now()
		w.cache.Close()
		if took := time.Since(began); took != retireTimeout {
			t.Errorf("closing the cache took %v", took)
		}
	})
}
