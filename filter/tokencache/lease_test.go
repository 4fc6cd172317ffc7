package tokencache

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// TestClocksThatMoveApartEndTheLease: if the host sleeps or its time is set, the monotonic
// clock measures too little of the lease. L1 then stops until the next grant. A step below
// the tolerance has no effect.
func TestClocksThatMoveApartEndTheLease(t *testing.T) {
	for name, tc := range map[string]struct {
		step time.Duration
		want contract.Answer
	}{
		"asleep":          {10 * time.Hour, contract.Miss},
		"a nap":           {contract.ClockTolerance + 1, contract.Miss},
		"set back":        {-contract.ClockTolerance - 1, contract.Miss},
		"adjusted":        {contract.ClockTolerance, contract.Found},
		"adjusted back":   {-contract.ClockTolerance, contract.Found},
		"nothing happens": {0, contract.Found},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldConfig{noRedis: true}, func(w *world) {
				w.control.introspect = func(*contract.Introspect) *contract.Result {
					r := testRecord(1, 5)
					r.Until = w.clock.Now().millis() + contract.RecordLife.Milliseconds()
					return &contract.Result{Answer: contract.Found, Revision: 5, Record: r}
				}
				w.live()
				w.want("look-up", w.resolve(1), contract.Found)
				w.clock.step.Add(int64(tc.step))
				w.want("at once", w.lookup(1), tc.want)
				if got := w.cache.Stats().Leased; got != (tc.want == contract.Found) {
					t.Errorf("leased %v", got)
				}
				w.advance(contract.RenewEvery)
				w.want("after the next grant", w.lookup(1), contract.Found)
			})
		})
	}
}

// TestGrantFromBeforeASleepIsDropped: a grant for a Renew from before a sleep came too late
// to count.
func TestGrantFromBeforeASleepIsDropped(t *testing.T) {
	inWorld(t, worldConfig{noRedis: true}, func(w *world) {
		l := w.control.accept()
		l.welcome()
		first := l.expect(contract.FrameRenew)
		w.clock.step.Add(int64(time.Second))
		l.send(contract.FrameGranted, first)
		synctest.Wait()
		if s := w.cache.Stats(); s.Leased || s.ClocksApart != 1 {
			t.Errorf("%+v", s)
		}
		l.send(contract.FrameGranted, l.expect(contract.FrameRenew))
		synctest.Wait()
		if s := w.cache.Stats(); !s.Leased || s.ClocksApart != 1 {
			t.Errorf("after the next Renew: %+v", s)
		}
	})
}

// TestNoGraceAfterASleep: grace is a short time after a lease, but after a sleep nobody
// knows how much time has passed.
func TestNoGraceAfterASleep(t *testing.T) {
	inWorld(t, worldConfig{noRedis: true, cache: contract.CacheSettings{Grace: 5000}}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 5) }
		l := w.live()
		w.want("look-up", w.resolve(1), contract.Found)
		w.control.down.Store(true)
		_ = l.conn.Close()
		w.advance(contract.Lease)
		w.want("grace", w.resolve(1), contract.Found)
		w.clock.step.Add(int64(time.Hour))
		w.want("after a sleep", w.resolve(1), contract.Unavailable)
	})
}
