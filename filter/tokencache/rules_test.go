package tokencache

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// Each row breaks one rule of "Trust" in docs/adr/0003-freshness.md, or none: then
// Redis answers, and the control plane, which says that there is no such token, is
// not asked.
func TestRulesOfReadingRedis(t *testing.T) {
	clock := func(c contract.Clock) func(*fakeStore) {
		return func(s *fakeStore) { s.set(contract.RedisClockKey, c.Marshal()) }
	}
	set := func(key string, value []byte) func(*fakeStore) { return func(s *fakeStore) { s.set(key, value) } }
	without := func(key string) func(*fakeStore) { return func(s *fakeStore) { delete(s.values, key) } }
	record := func(change func(*contract.Record)) func(*fakeStore) {
		return func(s *fakeStore) {
			r := storable(testRecord(1, 5))
			change(r)
			b, err := r.Sign(hashOf(1), testKey)
			if err != nil {
				panic(err)
			}
			s.set(contract.RedisRecordKey(testPlane, hashOf(1)), b)
		}
	}
	floor := func(revision uint64, epoch contract.Epoch) []byte {
		return contract.Floor{Revision: revision, Epoch: epoch}.Marshal()
	}
	key, credential, consumer := contract.RedisRecordKey(testPlane, hashOf(1)), contract.RedisCredentialKey(testPlane, "credential-1"), contract.RedisConsumerKey(testPlane, "consumer-1")
	for name, tc := range map[string]struct {
		set func(*fakeStore)
		hit bool
	}{
		"all well":                      {func(*fakeStore) {}, true},
		"no clock":                      {without(contract.RedisClockKey), false},
		"clock is no clock":             {set(contract.RedisClockKey, []byte("{}x")), false},
		"clock of another epoch":        {clock(contract.Clock{Epoch: testEpoch + 1, Log: testLog, Position: 2}), false},
		"clock of no epoch":             {clock(contract.Clock{Log: testLog, Position: 2}), false},
		"clock of this log, behind":     {clock(contract.Clock{Epoch: testEpoch, Log: testLog, Position: 1}), false},
		"clock of this log, ahead":      {clock(contract.Clock{Epoch: testEpoch, Log: testLog, Position: 3}), true},
		"clock of another log":          {clock(contract.Clock{Epoch: testEpoch, Log: "log-0", Position: 1}), true},
		"record of another epoch":       {record(func(r *contract.Record) { r.Epoch++ }), false},
		"record too old":                {record(func(r *contract.Record) { r.Until = time.Now().UnixMilli() }), false},
		"record nearly too old":         {record(func(r *contract.Record) { r.Until = time.Now().UnixMilli() + 1 }), true},
		"record without an age":         {record(func(r *contract.Record) { r.Until = 0 }), false},
		"own tombstone":                 {set(key, contract.MarshalTombstone(6)), false},
		"no record":                     {without(key), false},
		"record that cannot be decoded": {set(key, []byte("x")), false},
		"no floor of the credential":    {without(credential), false},
		"no floor of the consumer":      {without(consumer), false},
		"floor of the credential above": {set(credential, floor(6, testEpoch)), false},
		"floor of the consumer above":   {set(consumer, floor(6, testEpoch)), false},
		"floor of the record itself":    {set(credential, floor(5, testEpoch)), true},
		"floor of another epoch":        {set(credential, floor(0, testEpoch+1)), false},
		"floor of no epoch":             {set(consumer, floor(0, 0)), false},
		"floor that is none":            {set(consumer, []byte("x")), false},
		"floor of the former kind":      {set(consumer, contract.MarshalTombstone(1)), false},
		"no consumer, no floor for it": {func(s *fakeStore) {
			record(func(r *contract.Record) { r.Consumer = nil })(s)
			delete(s.values, consumer)
		}, true},
		"unsigned": {func(s *fakeStore) {
			b, err := storable(testRecord(1, 5)).Marshal()
			if err != nil {
				panic(err)
			}
			s.set(key, b)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldConfig{}, func(w *world) {
				w.control.introspect = func(*contract.Introspect) *contract.Result {
					return &contract.Result{Answer: contract.Unknown, Revision: 9}
				}
				l := w.live()
				l.send(contract.FrameInvalidate, (&contract.Invalidate{To: 2}).Encode())
				l.expectAck(2)
				w.store.putRecord(t, 1, testRecord(1, 5))
				w.store.putClock(2)
				tc.set(w.store)
				want := contract.Unknown
				if tc.hit {
					want = contract.Found
				}
				w.want("look-up", w.resolve(1), want)
				w.want("remembered", w.lookup(1), want)
				if asked := w.control.asked.Load(); (asked == 0) != tc.hit {
					t.Errorf("%d introspections", asked)
				}
			})
		})
	}
}

// Rule 6: what is in Redis may be older than what this filter knows.
func TestFloorsInMemoryVoidWhatRedisHolds(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result {
			return &contract.Result{Answer: contract.Unknown, Revision: 9}
		}
		l := w.live()
		l.invalidate(1, tokenGone(1, 6))
		l.expectAck(1)
		w.store.putRecord(t, 1, testRecord(1, 5))
		w.store.putClock(1)
		w.want("look-up", w.resolve(1), contract.Unknown)
	})
}

// What changes while the floors are read counts: the answer would be used after
// the change was acknowledged.
func TestChangesDuringARead(t *testing.T) {
	for name, change := range map[string]func(*world, *fakeLink){
		"trust taken back": func(_ *world, l *fakeLink) { l.trust(1, contract.Trust{}) },
		"another epoch":    func(_ *world, l *fakeLink) { l.trust(1, contract.Trust{Epoch: 77, Servers: testTrust.Servers}) },
		"other servers": func(w *world, l *fakeLink) {
			w.store.set(contract.RedisRecordKey(testPlane, hashOf(1)), nil) // it is not there
			l.trust(1, contract.Trust{Epoch: testEpoch, Servers: []string{"run-2"}})
		},
		"a later place": func(_ *world, l *fakeLink) {
			l.send(contract.FrameInvalidate, (&contract.Invalidate{To: 2}).Encode())
		},
		"the token revoked": func(_ *world, l *fakeLink) { l.invalidate(1, tokenGone(1, 6)) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldConfig{}, func(w *world) {
				w.control.introspect = func(*contract.Introspect) *contract.Result {
					return &contract.Result{Answer: contract.Unknown, Revision: 9}
				}
				l := w.live()
				w.store.putRecord(t, 1, testRecord(1, 5))
				w.store.putClock(1) // behind what comes only if that is a later place
				w.store.reading = func(key string) {
					if key == contract.RedisCredentialKey(testPlane, "credential-1") {
						w.store.reading = nil
						change(w, l)
						l.expect(contract.FrameAck)
					}
				}
				w.want("look-up", w.resolve(1), contract.Unknown)
			})
		})
	}
}
