package tokencache

import (
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/meshgate/meshgate/filter/contract"
)

// TestGivenUpLookUpsLeaveTheRow: look-ups that nobody waits for any more leave their queue.
// The next look-up does not wait for them, and nothing of them is left.
func TestGivenUpLookUpsLeaveTheRow(t *testing.T) {
	inWorld(t, worldConfig{static: true}, func(w *world) {
		hold := make(chan struct{})
		var asked atomic.Int64
		w.store.reading = func(key string) {
			if key != contract.RedisClockKey {
				asked.Add(1)
			}
			<-hold
		}
		answers := make(chan contract.Answer, 1000)
		done := func(a contract.Answer, _ []byte) { answers <- a }
		var leave []func()
		for i := range maxLookups + 500 {
			leave = append(leave, w.cache.ResolveFor(Asker{stranger, uint64(i % 7)}, hashOf(i), testPlugin, done))
		}
		synctest.Wait()
		for _, giveUp := range leave {
			giveUp()
			giveUp() // the second time nothing happens
		}
		synctest.Wait()
		f := &w.cache.flights
		if f.turns.queued != 0 || f.turns.active != maxLookups || len(f.byHash) != maxLookups || f.waiters.total != maxLookups || len(f.turns.addresses) != 0 {
			t.Errorf("%d queued, %d active, %d flights, %d waiters", f.turns.queued, f.turns.active, len(f.byHash), f.waiters.total)
		}
		if len(answers) != 500 || w.cache.Stats().Abandoned != 500 {
			t.Errorf("%d answers, %d abandoned", len(answers), w.cache.Stats().Abandoned)
		}
		close(hold)
		synctest.Wait()
		if asked.Load() != maxLookups {
			t.Errorf("%d tokens were asked for", asked.Load())
		}
		if f.waiters.total != 0 || len(f.byHash) != 0 || len(answers) != maxLookups+500 {
			t.Errorf("%d waiters, %d flights, %d answers", f.waiters.total, len(f.byHash), len(answers))
		}
	})
}

// TestGivenUpWaiterLeavesTheOthers: if several requests wait for one token and one leaves,
// the others go on waiting. A request that arrives after the last one has left is served.
func TestGivenUpWaiterLeavesTheOthers(t *testing.T) {
	inWorld(t, worldConfig{static: true}, func(w *world) {
		const token = 1 << 20
		w.store.putRecord(t, token, testRecord(token, 5))
		hold := make(chan struct{})
		w.store.reading = func(string) { <-hold }
		for i := range maxLookups {
			w.cache.ResolveFor(Asker{stranger, 1}, hashOf(i), testPlugin, func(contract.Answer, []byte) {})
		}
		answers := make([]chan contract.Answer, 3)
		ask := func(i int, from Asker) func() {
			answers[i] = make(chan contract.Answer, 2)
			return w.cache.ResolveFor(from, hashOf(token), testPlugin, func(a contract.Answer, _ []byte) { answers[i] <- a })
		}
		first, second := ask(0, Asker{stranger, 1}), ask(1, Asker{stranger, 2})
		first()
		w.want("who left", <-answers[0], contract.Unavailable)
		second()
		w.want("who left last", <-answers[1], contract.Unavailable)
		ask(2, Asker{friend, 1}) // the flight of the others may not have ended yet
		synctest.Wait()
		if fl := w.cache.flights.byHash[hashOf(token)]; fl == nil || fl.from != (Asker{friend, 1}) {
			t.Error("whoever came last does not wait in a row of its own")
		}
		close(hold)
		w.want("who came last", <-answers[2], contract.Found)
	})
}
