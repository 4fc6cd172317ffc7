package tokencache

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

var errUnreachable = errors.New("connection refused")

func TestConcurrentFirstUsesAreOneLookUp(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 5) }
		w.live()
		var wg sync.WaitGroup
		var good atomic.Int64
		for range 1000 {
			wg.Add(1)
			go w.cache.Resolve(hashOf(1), testPlugin, func(a contract.Answer, packed []byte) {
				if a == contract.Found && len(packed) > 0 {
					good.Add(1)
				}
				wg.Done()
			})
		}
		wg.Wait()
		if good.Load() != 1000 || w.control.asked.Load() != 1 || w.store.reads != 2 {
			t.Errorf("%d answered, %d introspections, %d reads of Redis", good.Load(), w.control.asked.Load(), w.store.reads)
		}
	})
}

// TestConcurrentFirstUsesWithoutLease: without a lease, the waiters that came after the
// first read began share a second one, so there are at most two look-ups.
func TestConcurrentFirstUsesWithoutLease(t *testing.T) {
	inWorld(t, worldConfig{static: true}, func(w *world) {
		w.store.putRecord(t, 1, testRecord(1, 5))
		all := make(chan struct{})
		w.store.reading = func(string) { <-all }
		var wg sync.WaitGroup
		for range 1000 {
			wg.Add(1)
			w.cache.Resolve(hashOf(1), testPlugin, func(a contract.Answer, _ []byte) {
				w.want("look-up", a, contract.Found)
				wg.Done()
			})
		}
		synctest.Wait()
		close(all)
		wg.Wait()
		if got := w.store.reads; got > 8 {
			t.Errorf("%d reads of Redis, want at most two look-ups of 4", got)
		}
	})
}

// TestBlockedRedis: Redis accepts connections but does not answer. No request waits longer
// than its deadline, and after three failures no request waits at all.
func TestBlockedRedis(t *testing.T) {
	inWorld(t, worldConfig{static: true}, func(w *world) {
		w.store.block = true
		for i := range 3 {
			start := time.Now()
			w.want("blocked", w.resolve(i), contract.Unavailable)
			if took := time.Since(start); took != l2Patience*l2Timeout {
				t.Errorf("look-up %d took %v", i, took)
			}
		}
		start := time.Now()
		for i := range 100 {
			w.want("breaker open", w.resolve(i), contract.Unavailable)
		}
		if took := time.Since(start); took != 0 || !w.cache.Stats().BreakerOpen {
			t.Errorf("with the breaker open 100 look-ups took %v", took)
		}
		w.advance(breakerProbe)
		reads := w.store.reads
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Add(1)
			w.cache.Resolve(hashOf(i), testPlugin, func(contract.Answer, []byte) { wg.Done() })
		}
		wg.Wait()
		if got := w.store.reads - reads; got != 1 {
			t.Errorf("%d probes at a time", got)
		}
		w.store.block = false
		w.store.putRecord(t, 1, testRecord(1, 5))
		w.advance(breakerProbe)
		w.want("redis is back", w.resolve(1), contract.Found)
		if w.cache.Stats().BreakerOpen {
			t.Error("the breaker stayed open")
		}
	})
}

// TestSlowRedisIsWaitedForWithoutALink: while the control plane is away, only Redis can be
// asked, so a good read that is slow because of an overloaded machine is waited for. With a
// link the wait is shorter, because the control plane can answer.
func TestSlowRedisIsWaitedForWithoutALink(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 5) }
		l := w.live()
		w.store.putRecord(t, 1, testRecord(1, 5))
		w.store.putClock(0)
		w.store.slow = l2Timeout
		start := time.Now()
		w.want("linked", w.resolve(1), contract.Found)
		if took := time.Since(start); took > 2*l2Timeout || w.control.asked.Load() != 1 {
			t.Errorf("with a link the look-up took %v, and the control plane was asked %d times", took, w.control.asked.Load())
		}
		w.control.down.Store(true)
		_ = l.conn.Close()
		w.advance(contract.Lease)
		for range 2 * breakerFailures {
			w.want("unlinked", w.resolve(1), contract.Found)
		}
		if w.cache.Stats().BreakerOpen {
			t.Error("Redis is left alone although it answers")
		}
	})
}

// TestErrorsAreNotRemembered: a failing Redis says nothing about a token.
func TestErrorsAreNotRemembered(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result {
			return &contract.Result{Answer: contract.Unavailable}
		}
		w.live()
		w.store.fail = errUnreachable
		w.want("redis fails, plugin not known", w.resolve(1), contract.Unavailable)
		w.want("not remembered", w.lookup(1), contract.Miss)
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 5) }
		w.want("asked again", w.resolve(1), contract.Found)
	})
}

// TestRefusalIsForOnePlugin: the control plane may refuse to speak about one plugin and
// answer another.
func TestRefusalIsForOnePlugin(t *testing.T) {
	inWorld(t, worldConfig{noRedis: true}, func(w *world) {
		w.control.introspect = func(q *contract.Introspect) *contract.Result {
			if q.Plugin == "strange" {
				return &contract.Result{Answer: contract.Unavailable}
			}
			return found(1, 5)
		}
		w.live()
		answers := make(chan string, 4)
		for _, plugin := range []string{"strange", "known", "strange", "known"} {
			w.cache.Resolve(hashOf(1), plugin, func(a contract.Answer, _ []byte) { answers <- fmt.Sprint(plugin, a) })
		}
		got := map[string]int{}
		for range 4 {
			got[<-answers]++
		}
		if got[fmt.Sprint("known", contract.Found)] != 2 || len(got) > 3 {
			t.Errorf("answers: %v", got)
		}
	})
}

func TestSilentIntrospectionHasADeadline(t *testing.T) {
	inWorld(t, worldConfig{noRedis: true}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result { return nil }
		w.live()
		start := time.Now()
		answers := make(chan contract.Answer, 10)
		for i := range 10 {
			w.cache.Resolve(hashOf(1), fmt.Sprint(i), func(a contract.Answer, _ []byte) { answers <- a })
			w.advance(50 * time.Millisecond)
		}
		for range 10 {
			w.want("no answer", <-answers, contract.Unavailable)
		}
		if took := time.Since(start); took > waitTimeout {
			t.Errorf("took %v", took)
		}
		w.want("not remembered", w.lookup(1), contract.Miss)
	})
}

func TestBoundsOfResolve(t *testing.T) {
	inWorld(t, worldConfig{static: true}, func(w *world) {
		w.store.block = true
		var answered atomic.Int64
		done := func(contract.Answer, []byte) { answered.Add(1) }
		const bound = maxLookups + maxFlights
		for i := range bound {
			w.cache.Resolve(hashOf(i), testPlugin, done)
		}
		if answered.Load() != 0 {
			t.Fatal("answered before the bound")
		}
		w.cache.Resolve(hashOf(bound), testPlugin, done)
		if answered.Load() != 1 || w.cache.Stats().Rejected != 1 {
			t.Errorf("a look-up beyond the bound was not refused at once: %+v", w.cache.Stats())
		}
		// Requests without a known source count as one source.
		waiting := bound
		for ; answered.Load() == 1; waiting++ {
			w.cache.Resolve(hashOf(0), testPlugin, done)
		}
		if waiting--; waiting > maxWaiters/4 {
			t.Errorf("one source has %d requests waiting", waiting)
		}
		w.advance(waitTimeout)
		if got := answered.Load(); got != int64(waiting)+2 {
			t.Errorf("%d answered of %d", got, waiting+2)
		}
		if w.cache.flights.waiters.total != 0 || len(w.cache.flights.byHash) != 0 {
			t.Error("something is left behind")
		}
	})
}

// TestPanicsAnswerEverybodyOnce: after panics of a callback and of the store, every waiter
// is answered once.
func TestPanicsAnswerEverybodyOnce(t *testing.T) {
	inWorld(t, worldConfig{static: true}, func(w *world) {
		var answered atomic.Int64
		w.store.putRecord(t, 1, testRecord(1, 5))
		for i := range 10 {
			w.cache.Resolve(hashOf(1), testPlugin, func(contract.Answer, []byte) {
				answered.Add(1)
				if i == 3 {
					panic("callback")
				}
			})
		}
		synctest.Wait()
		if got := answered.Load(); got != 10 {
			t.Errorf("%d answers to 10 waiters", got)
		}
		w.store.reading = func(string) { panic("store") }
		for range 5 {
			w.want("store panics", w.resolve(1), contract.Unavailable)
		}
		w.store.reading = nil
		w.want("recovered", w.resolve(1), contract.Found)
	})
}

func TestCloseAnswersWaiters(t *testing.T) {
	inWorld(t, worldConfig{static: true}, func(w *world) {
		w.store.block = true
		answers := make(chan contract.Answer, 3)
		for range 3 {
			w.cache.Resolve(hashOf(1), testPlugin, func(a contract.Answer, _ []byte) { answers <- a })
		}
		synctest.Wait()
		w.cache.Close()
		for range 3 {
			w.want("closed while waiting", <-answers, contract.Unavailable)
		}
	})
}
