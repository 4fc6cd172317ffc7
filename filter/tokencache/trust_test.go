package tokencache

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/filter/contract"
)

// cutOff puts a good record into Redis, lets the control plane go away and the
// lease end: from then on the record is all there is.
func (w *world) cutOff(l *fakeLink) {
	w.t.Helper()
	w.store.putRecord(w.t, 1, testRecord(1, 5))
	w.store.putClock(1 << 20)
	w.control.down.Store(true)
	_ = l.conn.Close()
	w.advance(contract.Lease)
}

// Without a word of the control plane nothing in Redis is believed, and nothing is
// even read there.
func TestRedisIsNotReadWithoutTrust(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.control.auto = true
		l := w.control.accept()
		l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog})
		synctest.Wait()
		w.cutOff(l)
		w.want("no trust yet", w.resolve(1), contract.Unavailable)
		if w.store.reads != 0 || len(w.opened) != 0 {
			t.Errorf("%d reads, clients of %v", w.store.reads, w.opened)
		}
	})
}

// Whoever has no lease, so that a revocation can be confirmed without it, has Redis asked
// whose data are read.
func TestRedisIsAskedAgainWithoutALease(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		l := w.live()
		w.store.putRecord(t, 2, testRecord(2, 5))
		w.store.putClock(1 << 20)
		w.want("with a lease", w.resolve(2), contract.Found)
		if slices.Contains(w.store.alone, true) {
			t.Errorf("a filter with a lease is taken for alone: %v", w.store.alone)
		}
		w.cutOff(l)
		w.want("without one", w.resolve(1), contract.Found)
		if !slices.Equal(w.store.alone, []bool{true, true}) {
			t.Errorf("a filter without a lease is not taken for alone: %v", w.store.alone)
		}
	})
}

// Trust is taken back and given again.
func TestTrustIsTakenBack(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result {
			return &contract.Result{Answer: contract.Unknown, Revision: 9}
		}
		l := w.live()
		w.store.putRecord(t, 1, testRecord(1, 5))
		w.store.putRecord(t, 2, testRecord(2, 5))
		w.store.putClock(1 << 20)
		l.trust(1, contract.Trust{})
		l.expectAck(1)
		w.want("taken back", w.resolve(1), contract.Unknown)
		if w.store.reads != 0 {
			t.Errorf("%d reads of Redis", w.store.reads)
		}
		l.trust(2, testTrust)
		l.expectAck(2)
		w.want("given again", w.resolve(2), contract.Found)
		if d := cmp.Diff([][]string{{testRunID}}, w.opened); d != "" {
			t.Errorf("clients (-want +got):\n%s", d)
		}
	})
}

// A trust in other servers makes a new client: no connection to the former is left.
func TestOtherServersOtherClient(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		l := w.live()
		for at, servers := range [][]string{{"b", "a"}, {"a", "b"}, {"c"}} {
			l.trust(contract.Position(at+1), contract.Trust{Epoch: contract.Epoch(at + 9), Servers: servers})
			l.expectAck(contract.Position(at + 1))
		}
		synctest.Wait()
		if d := cmp.Diff([][]string{{testRunID}, {"a", "b"}, {"c"}}, w.opened); d != "" || w.store.closed != 2 {
			t.Errorf("%d closed, clients (-want +got):\n%s", w.store.closed, d)
		}
	})
}

// Servers that do not tell who they are could be any: they are read only while
// the control plane can take trust back at once.
func TestNamelessServersOnlyWithALink(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result {
			return &contract.Result{Answer: contract.Unknown, Revision: 9}
		}
		l := w.live()
		l.trust(1, contract.Trust{Epoch: testEpoch})
		l.expectAck(1)
		w.store.putRecord(t, 2, testRecord(2, 5))
		w.store.putClock(1)
		w.want("linked", w.resolve(2), contract.Found)
		w.cutOff(l)
		w.want("not linked", w.resolve(1), contract.Unavailable)
	})
}

// A filter that had no lease for so long may have been forgotten, and nobody
// waits for it any more. Both clocks must say that it was not that long.
func TestTrustEndsWithTheMemoryOfTheControlPlane(t *testing.T) {
	for name, tc := range map[string]struct {
		step time.Duration
		want contract.Answer
	}{
		"shortly before":     {contract.TrustFor - contract.Lease - time.Second, contract.Found},
		"too long ago":       {contract.TrustFor, contract.Unavailable},
		"set back a little":  {-contract.LeaseAhead + time.Minute, contract.Found},
		"set back by a year": {-365 * 24 * time.Hour, contract.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldConfig{}, func(w *world) {
				w.cutOff(w.live())
				w.clock.step.Add(int64(tc.step))
				r := testRecord(1, 5)
				r.Until = w.clock.Now().millis() + 1000
				w.store.putRecord(t, 1, r)
				w.want("look-up", w.resolve(1), tc.want)
			})
		})
	}
	if contract.TrustFor+contract.LeaseAhead >= contract.RememberFilter {
		t.Error("a filter may believe Redis longer than it is remembered")
	}
	t.Run("by the monotonic clock", func(t *testing.T) {
		inWorld(t, worldConfig{}, func(w *world) {
			w.cutOff(w.live())
			last := *w.cache.lastLease.Load()
			last.Mono -= contract.TrustFor
			w.cache.lastLease.Store(&last)
			w.want("look-up", w.resolve(1), contract.Unavailable)
		})
	})
}

// A trust that names too many servers is no message of ours.
func TestTrustIsBounded(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		l := w.live()
		l.trust(1, contract.Trust{Epoch: 1, Servers: make([]string, contract.MaxServers+1)})
		l.expectEnd()
	})
}
