package tokencache

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// From the moment at which a Welcome has voided what a filter was told before, questions
// can be asked on the link that brought it: a look-up that begins just then, and could
// have been answered before and after, is not refused.
func TestWelcomeAndLinkAreOne(t *testing.T) {
	var w *world
	var armed atomic.Bool
	answer := make(chan contract.Answer, 1)
	inWorld(t, worldConfig{logged: func(message string) {
		if message == "freshness link is up" && armed.Swap(false) {
			w.cache.Resolve(hashOf(2), testPlugin, func(a contract.Answer, _ []byte) { answer <- a })
			time.Sleep(time.Millisecond) // until the look-up can do no more
		}
	}}, func(in *world) {
		w, answer = in, make(chan contract.Answer, 1)
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 5) }
		_ = w.live().conn.Close()
		next := w.control.accept()
		armed.Store(true)
		next.json(contract.FrameWelcome, contract.Welcome{Log: "log-2"})
		w.want("while the link is taken into use", <-answer, contract.Found)
		if armed.Load() {
			t.Error("nobody asked in that moment")
		}
	})
}

// A cache that is closed while its link is being welcomed keeps no link.
func TestCloseDuringTheWelcome(t *testing.T) {
	var w *world
	var armed atomic.Bool
	inWorld(t, worldConfig{logged: func(message string) {
		if message == "the memory of tokens starts anew" && armed.Swap(false) {
			go w.cache.Close()
			time.Sleep(time.Millisecond) // until that waits for the link
		}
	}}, func(in *world) {
		w = in
		next := w.control.accept()
		armed.Store(true)
		next.welcome()
		synctest.Wait()
		w.cache.Close()
		if armed.Load() || w.cache.session.Load() != nil {
			t.Errorf("closed in that moment: %v, link: %v", !armed.Load(), w.cache.session.Load())
		}
	})
}
