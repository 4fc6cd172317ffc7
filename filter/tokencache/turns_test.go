package tokencache

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// stranger is the address that sends random tokens, and friend is another address.
const stranger, friend = 1, 2

// TestRandomTokensDoNotStarveGoodOnes: a control plane that answers 640 questions a second
// is flooded with ten thousand random tokens a second over 500 connections of one address.
// Cold good tokens of another address are still answered within a second. Those of the same
// address on a connection of its own are answered in time as well.
func TestRandomTokensDoNotStarveGoodOnes(t *testing.T) {
	for name, tc := range map[string]struct {
		friend Asker
		within time.Duration
	}{
		"of another address":               {Asker{friend, 1}, time.Second},
		"of one that keeps its connection": {Asker{stranger, 1 << 20}, waitTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldConfig{noRedis: true}, func(w *world) {
				const good = 1 << 30
				var link atomic.Pointer[fakeLink]
				var busy atomic.Int64
				w.control.introspect = func(q *contract.Introspect) *contract.Result {
					if busy.Add(1) > maxLookups { // as the real one does
						busy.Add(-1)
						return &contract.Result{Answer: contract.Unavailable}
					}
					go func() {
						<-time.After(50 * time.Millisecond)
						busy.Add(-1)
						res := &contract.Result{Answer: contract.Unknown, Revision: 5}
						for i := range 10 {
							if q.Token == hashOf(good+i) {
								res = found(good+i, 5)
							}
						}
						res.ID = q.ID
						link.Load().result(res)
					}()
					return nil
				}
				link.Store(w.live())
				var asked, answered atomic.Int64
				stop := make(chan struct{})
				flood := make(chan struct{})
				go func() {
					defer close(flood)
					tick := time.NewTicker(time.Millisecond)
					defer tick.Stop()
					for n := 0; ; {
						select {
						case <-stop:
							return
						case <-tick.C:
						}
						for range 10 {
							n++
							asked.Add(1)
							w.cache.ResolveFor(Asker{stranger, uint64(n % 500)}, hashOf(n), testPlugin, func(contract.Answer, []byte) { answered.Add(1) })
						}
					}
				}()
				w.advance(3 * time.Second)
				for i := range 10 {
					begun := time.Now()
					answer := make(chan contract.Answer, 1)
					w.cache.ResolveFor(tc.friend, hashOf(good+i), testPlugin, func(a contract.Answer, _ []byte) { answer <- a })
					if a := <-answer; a != contract.Found || time.Since(begun) > tc.within {
						t.Errorf("good token %d: answer %d after %v", i, a, time.Since(begun))
					}
				}
				close(stop)
				<-flood
				w.advance(waitTimeout)
				if asked.Load() != answered.Load() {
					t.Errorf("%d of %d random tokens are answered", answered.Load(), asked.Load())
				}
				if f := &w.cache.flights; f.turns.active != 0 || f.turns.queued != 0 || len(f.turns.addresses) != 0 || len(f.byHash) != 0 || f.waiters.total != 0 {
					t.Errorf("something is left: %d active, %d queued, %d flights", f.turns.active, f.turns.queued, len(f.byHash))
				}
			})
		})
	}
}

// TestTurnsGoRound: addresses take turns, and so do the connections of an address.
func TestTurnsGoRound(t *testing.T) {
	var ts turns
	var busy []*turn
	for range maxLookups {
		busy = append(busy, ts.ask(Asker{}))
	}
	var order []string
	waiting := map[string]*turn{}
	ask := func(name string, from Asker) { waiting[name] = ts.ask(from) }
	for _, n := range []string{"a1", "a2", "a3"} {
		ask(n, Asker{1, 1})
	}
	ask("b1", Asker{1, 2})
	ask("c1", Asker{2, 1})
	ask("c2", Asker{2, 1})
	for _, w := range busy {
		ts.end(Asker{}, w)
		for name, w := range waiting {
			if w.granted {
				order = append(order, name)
				delete(waiting, name)
			}
		}
	}
	want := []string{"a1", "c1", "b1", "c2", "a2", "a3"}
	if len(order) != len(want) {
		t.Fatalf("order %v", order)
	}
	for i := range want {
		if order[i] != want[i] {
			t.Fatalf("order %v, want %v", order, want)
		}
	}
}

// TestFullRowRefusesWhoWaitsMost: when the queue is full, the source with the most waiting
// is refused, not the newest source.
func TestFullRowRefusesWhoWaitsMost(t *testing.T) {
	var ts turns
	for range maxLookups + maxFlights {
		ts.ask(Asker{stranger, 1})
	}
	if w := ts.ask(Asker{stranger, 1}); !w.refused {
		t.Error("the one who waits most is not refused")
	}
	if w := ts.ask(Asker{stranger, 2}); w.refused {
		t.Error("another connection is refused")
	}
	if w := ts.ask(Asker{friend, 1}); w.refused {
		t.Error("another address is refused")
	}
	if ts.queued != maxFlights || ts.active != maxLookups {
		t.Errorf("%d queued, %d active", ts.queued, ts.active)
	}
}

// TestLookUpMovesToTheShorterRow: a look-up in a long queue moves to the shorter queue of
// another source that asks for the same token.
func TestLookUpMovesToTheShorterRow(t *testing.T) {
	inWorld(t, worldConfig{static: true}, func(w *world) {
		w.store.putRecord(t, 1<<20, testRecord(1<<20, 5))
		hold := make(chan struct{})
		w.store.reading = func(string) { <-hold }
		for i := range maxLookups + 100 {
			w.cache.ResolveFor(Asker{stranger, 1}, hashOf(i), testPlugin, func(contract.Answer, []byte) {})
		}
		both := make(chan contract.Answer, 2)
		for _, from := range []Asker{{stranger, 1}, {friend, 1}} {
			w.cache.ResolveFor(from, hashOf(1<<20), testPlugin, func(a contract.Answer, _ []byte) { both <- a })
		}
		if fl := w.cache.flights.byHash[hashOf(1<<20)]; fl.from != (Asker{friend, 1}) {
			t.Errorf("waits in the row of %+v", fl.from)
		}
		synctest.Wait()
		close(hold)
		for range 2 {
			w.want("good token", <-both, contract.Found)
		}
	})
}
