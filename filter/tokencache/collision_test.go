package tokencache

import (
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// TestTokensInUseOutliveRevocationsOfOthers: revocations raise floors that innocent tokens
// share. While the control plane is there, tokens in use are looked up again, so that Redis
// holds valid records of them when the control plane is away.
func TestTokensInUseOutliveRevocationsOfOthers(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		const innocents, revoked, perFrame = 64, 1 << 16, 1 << 10
		revision := uint64(5)
		w.control.introspect = func(q *contract.Introspect) *contract.Result {
			for i := range innocents {
				if hashOf(i) == q.Token { // the control plane writes its answers to Redis
					w.store.putRecord(t, i, testRecord(i, revision))
					return found(i, revision)
				}
			}
			return &contract.Result{Answer: contract.Unknown, Revision: revision}
		}
		l := w.live()
		at := contract.Position(0)
		w.store.putClock(at)
		use := func() (inMemory int) {
			for i := range innocents {
				if w.lookup(i) == contract.Found {
					inMemory++
					continue
				}
				w.want("in use", w.resolve(i), contract.Found)
			}
			return inMemory
		}
		use()
		if n := use(); n != innocents {
			t.Fatalf("%d of %d in memory", n, innocents)
		}
		for at < revoked/perFrame {
			at++
			items := make([]contract.Invalidation, perFrame)
			for i := range items {
				revision++
				items[i] = tokenGone(innocents+int(at)*perFrame+i, revision)
			}
			l.invalidate(at, items...)
			l.expectAck(at)
		}
		w.store.putClock(at)
		asked := w.control.asked.Load()
		use()
		if n := w.control.asked.Load() - asked; n > innocents {
			t.Errorf("%d questions about %d tokens", n, innocents)
		}
		if n := use(); n != innocents {
			t.Errorf("%d of %d in memory", n, innocents)
		}
		w.control.down.Store(true)
		_ = l.conn.Close()
		w.advance(leaseSpan)
		for i := range innocents {
			w.want("from memory without a lease", w.lookup(i), contract.Miss)
			w.want("from Redis", w.resolve(i), contract.Found)
		}
	})
}
