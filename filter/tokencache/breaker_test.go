package tokencache

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// Look-ups that fail together say once that Redis does not answer: the breaker
// opens when it has not answered three times, one after the other.
func TestFailuresTogetherAreOne(t *testing.T) {
	inWorld(t, worldConfig{static: true}, func(w *world) {
		w.store.fail = errors.New("i/o timeout")
		w.store.reading = func(string) { time.Sleep(50 * time.Millisecond) }
		for round := 1; round <= breakerFailures; round++ {
			for i := range maxLookups {
				w.cache.Resolve(hashOf(round*1000+i), testPlugin, func(contract.Answer, []byte) {})
			}
			w.advance(60 * time.Millisecond)
			synctest.Wait()
			if open := w.cache.Stats().BreakerOpen; open != (round == breakerFailures) {
				t.Errorf("after %d rounds: open %v", round, open)
			}
		}
	})
}
