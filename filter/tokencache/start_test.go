package tokencache

import (
	"testing"
	"testing/synctest"

	"github.com/meshgate/meshgate/filter/contract"
)

// A request that arrives before the first attempt to link has ended waits for
// it: a filter that has just begun must not refuse what it could know.
func TestFirstLookUpWaitsForTheLink(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 5) }
		answer := make(chan contract.Answer, 1)
		w.cache.Resolve(hashOf(1), testPlugin, func(a contract.Answer, _ []byte) { answer <- a })
		synctest.Wait()
		if len(answer) != 0 {
			t.Fatal("answered before anybody could be asked")
		}
		w.live()
		w.want("once linked", <-answer, contract.Found)
	})
}

// With nobody there the wait ends with the attempt, and later requests do not
// wait at all.
func TestFirstLookUpEndsWithTheAttempt(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		answer := make(chan contract.Answer, 1)
		w.cache.Resolve(hashOf(1), testPlugin, func(a contract.Answer, _ []byte) { answer <- a })
		synctest.Wait()
		w.control.down.Store(true)
		_ = w.control.accept().conn.Close()
		w.want("the attempt failed", <-answer, contract.Unavailable)
		before := w.cache.clock.Now().Mono
		w.want("nobody there", w.resolve(1), contract.Unavailable)
		if d := w.cache.clock.Now().Mono - before; d != 0 {
			t.Errorf("waited %v", d)
		}
	})
}
