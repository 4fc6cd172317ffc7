package tokencache

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// fillMemory makes L1 hold some tokens.
func (w *world) fillMemory(tokens int) {
	w.t.Helper()
	w.control.introspect = func(q *contract.Introspect) *contract.Result {
		for i := range tokens {
			if hashOf(i) == q.Token {
				return found(i, 5)
			}
		}
		return &contract.Result{Answer: contract.Unknown, Revision: 5}
	}
	for i := range tokens {
		w.want("look-up", w.resolve(i), contract.Found)
	}
}

// batches takes all batches, answers each, and returns what they held.
func (w *world) batches(l *fakeLink) map[contract.Hash]int {
	w.t.Helper()
	all := map[contract.Hash]int{}
	for {
		synctest.Wait()
		if len(l.frames) == 0 {
			return all
		}
		m, err := contract.DecodeInUse(l.expect(contract.FrameInUse))
		if err != nil {
			w.t.Fatal(err)
		}
		synctest.Wait()
		if len(l.frames) != 0 {
			w.t.Error("another batch before the first was dealt with")
		}
		for _, h := range m.Tokens {
			all[h]++
		}
		l.send(contract.FrameRefilled, contract.EncodeNumber(m.Number+1)) // of no batch
		synctest.Wait()
		if len(l.frames) != 0 {
			w.t.Error("another batch before the answer to the first")
		}
		l.send(contract.FrameRefilled, contract.EncodeNumber(m.Number))
	}
}

// A new epoch says that Redis lost its records. L1 answers every request, so
// nobody would miss them there: the filter says what it holds.
func TestInUseAfterANewEpoch(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		const tokens = 2*contract.MaxInUse + 88
		l := w.live()
		w.fillMemory(tokens)
		l.trust(1, contract.Trust{}) // nobody writes: nothing is said
		l.expectAck(1)
		l.trust(2, testTrust) // an epoch that was there before
		l.expectAck(2)
		if got := w.batches(l); len(got) != 0 {
			t.Errorf("%d tokens for an epoch that is not new", len(got))
		}
		l.trust(3, contract.Trust{Epoch: 4, Servers: testTrust.Servers})
		l.expectAck(3) // first, for somebody waits for it
		got := w.batches(l)
		for i := range tokens {
			if got[hashOf(i)] != 1 {
				t.Fatalf("token %d was said %d times", i, got[hashOf(i)])
			}
		}
		if len(got) != tokens {
			t.Errorf("%d tokens", len(got))
		}
	})
}

// What L1 held when it was emptied is said too, as soon as somebody vouches for a
// Redis, and what was under way when a link broke is said again.
func TestInUseAfterStartingAnew(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		const tokens = contract.MaxInUse + 10
		l := w.live()
		w.fillMemory(tokens)
		_ = l.conn.Close()
		l = w.control.accept()
		l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: "log-2"})
		synctest.Wait()
		if len(l.frames) != 0 {
			t.Fatal("said while nobody writes Redis")
		}
		l.trust(1, testTrust)
		l.expectAck(1)
		if m, err := contract.DecodeInUse(l.expect(contract.FrameInUse)); err != nil || len(m.Tokens) != contract.MaxInUse {
			t.Fatalf("%v, %v", m, err)
		}
		_ = l.conn.Close()
		l = w.control.accept()
		l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: "log-2", From: 1, Trust: testTrust})
		l.expectAck(1)
		if got := w.batches(l); len(got) != tokens {
			t.Errorf("%d tokens on the next link, want %d", len(got), tokens)
		}
	})
}

func TestInUseSaysNothingWithoutRedis(t *testing.T) {
	inWorld(t, worldConfig{noRedis: true}, func(w *world) {
		l := w.live()
		w.fillMemory(3)
		l.trust(1, contract.Trust{Epoch: 4})
		l.expectAck(1)
		_ = l.conn.Close()
		l = w.control.accept()
		l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: "log-2", Trust: testTrust})
		if got := w.batches(l); len(got) != 0 {
			t.Errorf("%d tokens", len(got))
		}
	})
}

// What is remembered is bounded, holds what was used lately first, and nothing
// that serves nobody.
func TestInUseIsBounded(t *testing.T) {
	clock := &fakeClock{}
	tb := newTable(64<<20, clock)
	for i := range 2 * maxHeld {
		r := testRecord(i, 5)
		if i%4 == 0 {
			r.Until = clock.Now().millis() + 1
		}
		mustAdmit(t, tb, i, r)
	}
	clock.add(time.Second)
	hot := 1 + 4*100
	peek(tb, hot)
	got := tb.inUse(maxHeld, clock.Now())
	if len(got) > maxHeld || len(got) < maxHeld*9/10 {
		t.Errorf("%d tokens of at most %d", len(got), maxHeld)
	}
	all := map[contract.Hash]bool{}
	for _, h := range got {
		all[h] = true
	}
	if len(all) != len(got) || !all[hashOf(hot)] || all[hashOf(0)] {
		t.Errorf("%d different of %d, the one in use %v, a dead one %v", len(all), len(got), all[hashOf(hot)], all[hashOf(0)])
	}
	u := &inUse{ready: make(chan struct{}, 1)}
	u.add(got[:100])
	u.add([]contract.Hash{got[7], hashOf(1 << 40)})
	if len(u.pending) != 101 || u.pending[1] != hashOf(1<<40) {
		t.Errorf("%d are pending", len(u.pending))
	}
	u.add(tb.inUse(maxHeld, clock.Now()))
	u.add(nil)
	if len(u.pending) > maxHeld {
		t.Errorf("%d are pending", len(u.pending))
	}
}
