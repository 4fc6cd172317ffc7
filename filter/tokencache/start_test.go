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
		next.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: "log-2"})
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

// A control plane that has taken the connection and not said Welcome yet is there: a token
// that it has issued meanwhile is not refused for that moment.
func TestLookUpWaitsForTheWelcome(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 5) }
		_ = w.live().conn.Close()
		next := w.control.accept()
		answer := make(chan contract.Answer, 1)
		w.cache.Resolve(hashOf(2), testPlugin, func(a contract.Answer, _ []byte) { answer <- a })
		synctest.Wait()
		if len(answer) != 0 {
			t.Fatalf("answered %d before the welcome", <-answer)
		}
		next.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: "log-2"})
		w.want("once welcomed", <-answer, contract.Found)
		// One that ends instead of saying it keeps nobody.
		w.control.down.Store(true)
		_ = next.conn.Close()
		synctest.Wait()
		w.want("nobody there", w.resolve(3), contract.Unavailable)
	})
}

// While a Welcome is awaited, tokens that only the control plane could know keep nobody out
// whom Redis knows; of those that wait, nobody is kept out by the flood of another.
func TestWhoWaitsForTheWelcomeHoldsNobodyUp(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.control.introspect = func(q *contract.Introspect) *contract.Result {
			if q.Token == hashOf(2) {
				return found(2, 5)
			}
			return &contract.Result{Answer: contract.Unknown}
		}
		l := w.live()
		w.store.putRecord(t, 1, testRecord(1, 5))
		w.store.putClock(0)
		_ = l.conn.Close()
		next := w.control.accept()
		var refused atomic.Int64
		for i := range 2 * (maxLookups + maxFlights) {
			w.cache.ResolveFor(Asker{Address: 1}, hashOf(100+i), testPlugin, func(a contract.Answer, _ []byte) {
				if a == contract.Unavailable {
					refused.Add(1)
				}
			})
			if i%maxLookups == 0 {
				synctest.Wait() // what begins may rest before the row is too long
			}
		}
		answers := make(chan contract.Answer, 2)
		ask := func(token int) {
			w.cache.ResolveFor(Asker{Address: 2}, hashOf(token), testPlugin, func(a contract.Answer, _ []byte) { answers <- a })
			synctest.Wait()
		}
		ask(1)
		if len(answers) == 0 {
			t.Fatal("a token in Redis waits for the welcome")
		}
		w.want("in Redis", <-answers, contract.Found)
		ask(2)
		if len(answers) != 0 {
			t.Fatalf("answered %d before the welcome", <-answers)
		}
		next.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: "log-2"})
		w.want("once welcomed", <-answers, contract.Found)
		synctest.Wait()
		// Of the flood, one row's length was kept.
		if n := refused.Load(); n < maxFlights || n > maxFlights+2*maxLookups+1 {
			t.Errorf("%d of the flood were refused", n)
		}
		if f := &w.cache.flights; f.turns.active+f.turns.queued+f.rests.queued != 0 {
			t.Errorf("left behind: %+v, %+v", f.turns, f.rests)
		}
	})
}

// Whoever asks for a token uses it next: the pause between two attempts to link ends, but
// attempts follow each other no faster than after a first failure.
func TestTokenRequestsHastenTheLink(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		l := w.live()
		w.control.down.Store(true)
		_ = l.conn.Close()
		w.advance(10 * time.Second) // pauses are as long as they become
		before := w.cache.Stats().LinkFailures
		for range 100 {
			w.cache.Hasten()
			w.advance(time.Millisecond)
		}
		if n := w.cache.Stats().LinkFailures - before; n > 3 {
			t.Errorf("%d attempts in 100 ms", n)
		}
		w.control.down.Store(false)
		began := w.cache.clock.Now().Mono
		w.cache.Hasten()
		w.control.accept()
		if d := w.cache.clock.Now().Mono - began; d > backoffMin {
			t.Errorf("linked after %v", d)
		}
	})
}
