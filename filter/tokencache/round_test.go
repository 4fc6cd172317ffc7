package tokencache

import (
	"encoding/hex"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/meshgate/meshgate/filter/contract"
)

// flood lets a stranger ask for more tokens than have a turn, until none of them can do more.
func (w *world) flood(first int) {
	for i := range 2 * maxLookups {
		w.cache.ResolveFor(Asker{Address: stranger}, hashOf(first+i), testPlugin, func(contract.Answer, []byte) {})
	}
	synctest.Wait()
}

// atOnce returns the answer for a token, which must come before any time passes.
func (w *world) atOnce(what string, token int) contract.Answer {
	w.t.Helper()
	answer := make(chan contract.Answer, 1)
	w.cache.ResolveFor(Asker{Address: friend}, hashOf(token), testPlugin, func(a contract.Answer, _ []byte) { answer <- a })
	synctest.Wait()
	if len(answer) == 0 {
		w.t.Fatalf("%s: no answer while others wait", what)
	}
	return <-answer
}

// leftBehind reports turns that nobody has given back.
func (w *world) leftBehind() {
	w.t.Helper()
	w.advance(waitTimeout)
	if f := &w.cache.flights; f.turns.active+f.turns.queued+f.rests.queued+len(f.byHash) != 0 {
		w.t.Errorf("left behind: %+v, %+v, %d flights", f.turns, f.rests, len(f.byHash))
	}
}

// TestWhoWaitsForAProbeHoldsNobodyUp: look-ups that wait for the probe of a server that hangs hold
// no turn, so that tokens of the other servers of its cluster are answered.
func TestWhoWaitsForAProbeHoldsNobodyUp(t *testing.T) {
	inWorld(t, worldConfig{static: true, cluster: true}, func(w *world) {
		const good = 1 << 20
		w.store.putRecord(t, good, testRecord(good, 5))
		hash := hashOf(good)
		of := contract.RedisRecordKey(testPlane, hash)
		records := strings.TrimSuffix(of, hex.EncodeToString(hash[:]))
		w.store.hung = func(key string) bool { return strings.HasPrefix(key, records) && key != of }
		for range breakerFailures {
			w.want("silence", w.resolve(1), contract.Unavailable)
		}
		w.advance(breakerProbe)
		w.flood(100)
		w.want("of another server", w.atOnce("of another server", good), contract.Found)
		w.leftBehind()
	})
}

// TestGraceWaitsForNoStranger: while both authorities are away, what L1 answers in grace does not
// wait for a stranger's tokens, which only Redis could know.
func TestGraceWaitsForNoStranger(t *testing.T) {
	inWorld(t, worldConfig{cache: contract.CacheSettings{Grace: 60_000}}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 5) }
		l := w.live()
		w.want("look-up", w.resolve(1), contract.Found)
		w.control.down.Store(true)
		_ = l.conn.Close()
		w.advance(contract.Lease)
		w.store.block = true
		for range breakerFailures {
			w.want("silence", w.resolve(2), contract.Unavailable)
		}
		w.advance(breakerProbe)
		w.flood(100)
		w.want("in grace", w.atOnce("in grace", 1), contract.Found)
		w.leftBehind()
	})
}
