package tokencache

import (
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/filter/contract"
)

// TestNoSourceTakesTheRoomOfOthers: requests of one address for one token do not wait in
// queues, so queues do not bound them. They get at most a quarter of the room.
func TestNoSourceTakesTheRoomOfOthers(t *testing.T) {
	inWorld(t, worldConfig{static: true}, func(w *world) {
		w.store.block = true
		// Look-ups whose time is over may end while the test counts.
		held := func(of func(*share) int) int {
			w.cache.flights.mu.Lock()
			defer w.cache.flights.mu.Unlock()
			return of(&w.cache.flights.waiters)
		}
		all := func(s *share) int { return s.total }
		flood := func(from Asker, n int) (took int) {
			before := held(all)
			for range n {
				w.cache.ResolveFor(from, hashOf(1), testPlugin, func(contract.Answer, []byte) {})
			}
			return held(all) - before
		}
		for i := range 64 {
			flood(Asker{stranger, uint64(i)}, maxWaiters)
		}
		if got := held(func(s *share) int { return s.byAddress[stranger].total }); got > maxWaiters/4 {
			t.Errorf("one address has %d of %d", got, maxWaiters)
		}
		if got := flood(Asker{friend, 1}, 100); got != 100 {
			t.Errorf("another address has %d of 100", got)
		}
		for i := range 10 { // and more strangers
			flood(Asker{uint64(i + 10), 1}, maxWaiters)
		}
		if got := flood(Asker{1 << 40, 1}, 100); got != 100 {
			t.Errorf("somebody new has %d of 100: %d wait", got, held(all))
		}
		w.advance(waitTimeout)
		synctest.Wait()
		if total, addresses := held(all), held(func(s *share) int { return len(s.byAddress) }); total != 0 || addresses != 0 {
			t.Errorf("%d waiters of %d addresses are left", total, addresses)
		}
	})
}

// TestNoConnectionTakesTheRoomOfItsAddress: a connection leaves room for the others of its
// address.
func TestNoConnectionTakesTheRoomOfItsAddress(t *testing.T) {
	var s share
	for s.take(Asker{stranger, 1}) {
	}
	if got := s.total; got > maxWaiters/7+1 {
		t.Errorf("one connection has %d", got)
	}
	if !s.take(Asker{stranger, 2}) {
		t.Error("another connection of the address finds no room")
	}
}

// TestShareModel: after any sequence of take and give, the counts match what is held.
func TestShareModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s share
		var held []Asker
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			if len(held) > 0 && rapid.IntRange(0, 2).Draw(t, "give") == 0 {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				s.give(held[i])
				held = append(held[:i], held[i+1:]...)
			} else if from := (Asker{rapid.Uint64Range(0, 2).Draw(t, "address"), rapid.Uint64Range(0, 2).Draw(t, "connection")}); s.take(from) {
				held = append(held, from)
			}
			addresses := map[uint64]int{}
			for _, from := range held {
				addresses[from.Address]++
			}
			if s.total != len(held) || len(s.byAddress) != len(addresses) {
				t.Fatalf("%d of %d counted, %d of %d addresses", s.total, len(held), len(s.byAddress), len(addresses))
			}
			for a, n := range addresses {
				sum := 0
				for _, c := range s.byAddress[a].byConnection {
					sum += c
				}
				if s.byAddress[a].total != n || sum != n {
					t.Fatalf("address %d: %d counted, %d by connection, %d held", a, s.byAddress[a].total, sum, n)
				}
			}
		}
		for _, from := range held {
			s.give(from)
		}
		if s.total != 0 || len(s.byAddress) != 0 {
			t.Fatalf("%d are left", s.total)
		}
	})
}
