package tokencache

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// A record that is too old is missed from the very millisecond on, and one whose
// token has expired is unknown, whichever comes first.
func TestTableAgeIsExact(t *testing.T) {
	for name, tc := range map[string]struct {
		expires, until time.Duration // 0 is never
		end            time.Duration
		then           contract.Answer
	}{
		"age alone":               {0, time.Hour, time.Hour, contract.Miss},
		"expiry alone":            {time.Hour, 0, time.Hour, contract.Expired},
		"age first":               {2 * time.Hour, time.Hour, time.Hour, contract.Miss},
		"expiry first":            {time.Hour, 2 * time.Hour, time.Hour, contract.Expired},
		"both":                    {time.Hour, time.Hour, time.Hour, contract.Expired},
		"within a moment":         {0, time.Millisecond, time.Millisecond, contract.Miss},
		"the longest age of them": {0, contract.RecordLife, contract.RecordLife, contract.Miss},
	} {
		clock := &fakeClock{}
		tb := newTable(1<<20, clock)
		at := func(d time.Duration) int64 {
			if d == 0 {
				return 0
			}
			return clock.Now().millis() + d.Milliseconds()
		}
		r := testRecord(1, 5)
		r.Expires, r.Until = at(tc.expires), at(tc.until)
		mustAdmit(t, tb, 1, r)
		clock.add(tc.end - 1)
		if got := peek(tb, 1); got != contract.Found {
			t.Errorf("%s: before its end: %d", name, got)
		}
		clock.add(1)
		if got := peek(tb, 1); got != tc.then {
			t.Errorf("%s: at its end: %d", name, got)
		}
	}
	if headerSize != 64 {
		t.Errorf("a record in memory begins with %d bytes", headerSize)
	}
}

// A token that never expires is asked about again when its record is too old, and
// is as good as before.
func TestOldRecordsAreLookedUpAgain(t *testing.T) {
	inWorld(t, worldConfig{noRedis: true}, func(w *world) {
		life := time.Second
		w.control.introspect = func(*contract.Introspect) *contract.Result {
			r := testRecord(1, 5)
			r.Until = time.Now().Add(life).UnixMilli()
			return &contract.Result{Answer: contract.Found, Revision: 5, Record: r}
		}
		w.live()
		w.want("look-up", w.resolve(1), contract.Found)
		w.advance(life - time.Millisecond)
		w.want("a millisecond before its end", w.lookup(1), contract.Found)
		w.advance(time.Millisecond)
		w.want("at its end", w.lookup(1), contract.Miss)
		w.want("looked up again", w.resolve(1), contract.Found)
		w.want("and in memory again", w.lookup(1), contract.Found)
		life = 0
		w.want("a record that is too old at once", w.resolve(2), contract.Found)
		w.want("is not kept", w.lookup(2), contract.Miss)
	})
}

// By this host's clock a record lives no longer than its life, whatever the clock
// of the control plane says.
func TestAgeCountsByOwnClock(t *testing.T) {
	inWorld(t, worldConfig{noRedis: true}, func(w *world) {
		for _, until := range []int64{0, time.Now().Add(100 * time.Hour).UnixMilli()} {
			r := testRecord(1, 5)
			r.Until = until
			now := w.clock.Now()
			if got, want := untilOf(r, now), now.millis()+contract.RecordLife.Milliseconds(); got != want {
				t.Errorf("until %d: %d, want %d", until, got, want)
			}
		}
	})
}

// In a static configuration a record says by itself how long it is good.
func TestAgeInAStaticConfiguration(t *testing.T) {
	inWorld(t, worldConfig{static: true}, func(w *world) {
		plain, err := testRecord(1, 5).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		w.store.set(contract.RedisRecordKey(testPlane, hashOf(1)), plain) // by hand: no floors, no clock, no age
		w.want("by hand", w.resolve(1), contract.Found)
		w.store.set(contract.RedisCredentialKey(testPlane, "credential-1"), contract.Floor{Revision: 6}.Marshal())
		w.want("revoked by hand", w.resolve(1), contract.Unknown)
		delete(w.store.values, contract.RedisCredentialKey(testPlane, "credential-1"))
		r := testRecord(2, 5)
		r.Until = time.Now().Add(time.Second).UnixMilli()
		w.store.putRecord(t, 2, r)
		w.want("not too old", w.resolve(2), contract.Found)
		w.advance(time.Second)
		w.want("too old, and nobody else to ask", w.resolve(2), contract.Unavailable)
	})
}
