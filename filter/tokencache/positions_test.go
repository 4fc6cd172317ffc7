package tokencache

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// A filter that did not apply what a frame follows must not apply the frame: it
// would acknowledge what it never saw.
func TestFramesOutOfOrderEndTheLink(t *testing.T) {
	invalidate := func(from, to contract.Position) func(*fakeLink) {
		return func(l *fakeLink) {
			m := contract.Invalidate{From: from, To: to, Items: []contract.Invalidation{tokenGone(1, 9)}}
			l.send(contract.FrameInvalidate, m.Encode())
		}
	}
	trust := func(at contract.Position) func(*fakeLink) {
		return func(l *fakeLink) { l.trust(at, contract.Trust{Epoch: 99}) }
	}
	for name, send := range map[string]func(*fakeLink){
		"a gap":             invalidate(2, 3),
		"twice":             invalidate(0, 1),
		"overlapping":       invalidate(0, 2),
		"trust after a gap": trust(3),
		"trust twice":       trust(1),
		"trust at no place": trust(0),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldConfig{}, func(w *world) {
				w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 5) }
				l := w.live()
				l.invalidate(1, tokenGone(2, 6))
				l.expectAck(1)
				w.want("look-up", w.resolve(1), contract.Found)
				send(l)
				l.expectEnd()
				next := w.control.accept()
				if next.hello.Log != testLog || next.hello.Applied != 1 {
					t.Errorf("hello %+v", next.hello)
				}
				w.want("nothing of it was applied", w.lookup(1), contract.Found)
				if got := w.cache.Stats().Epoch; got != testEpoch {
					t.Errorf("epoch %d", got)
				}
			})
		})
	}
}

// The same log from the same place goes on: L1 stays, and the lease too.
func TestResumedLinkKeepsTheMemory(t *testing.T) {
	inWorld(t, worldConfig{noRedis: true}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 5) }
		l := w.live()
		l.invalidate(1, tokenGone(2, 6))
		l.expectAck(1)
		w.want("look-up", w.resolve(1), contract.Found)
		w.control.auto = false
		_ = l.conn.Close()
		next := w.control.accept()
		next.welcome()
		synctest.Wait()
		w.want("resumed", w.lookup(1), contract.Found)
		next.expect(contract.FrameRenew)
		next.send(contract.FrameInvalidate, (&contract.Invalidate{From: 1, To: 7, Items: []contract.Invalidation{tokenGone(1, 6)}}).Encode())
		next.expectAck(7)
		w.want("what was missed", w.lookup(1), contract.Miss)
		if s := w.cache.Stats(); s.Starts != 1 || s.Applied != 7 {
			t.Errorf("%+v", s)
		}
	})
}

// Another log, or the same from another place: what was known is worth nothing,
// neither the records nor the revocations, before anything else is read.
func TestStartsAnew(t *testing.T) {
	for name, welcome := range map[string]contract.Welcome{
		"another log":                {Log: "log-2", Trust: testTrust, Scopes: testScopes},
		"the same log from its root": {Log: testLog, Trust: testTrust, Scopes: testScopes},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldConfig{}, func(w *world) {
				w.control.introspect = func(q *contract.Introspect) *contract.Result {
					if q.Token == hashOf(3) {
						return &contract.Result{Answer: contract.Unknown, Revision: 50}
					}
					return found(1, 50)
				}
				l := w.live()
				l.invalidate(1, tokenGone(1, 50), contract.Invalidation{Subject: contract.SubjectConsumer, ID: "consumer-1", Revision: 50})
				l.expectAck(1)
				w.want("look-up", w.resolve(1), contract.Found)
				w.want("unknown", w.resolve(3), contract.Unknown)
				w.control.auto = false
				_ = l.conn.Close()
				next := w.control.accept()
				next.json(contract.FrameWelcome, welcome)
				next.expect(contract.FrameRenew)
				if s := w.cache.Stats(); s.Leased || s.Starts != 2 || s.Log != welcome.Log || s.Applied != 0 {
					t.Errorf("%+v", s)
				}
				w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 4) }
				next.send(contract.FrameGranted, contract.EncodeNumber(1))
				synctest.Wait()
				w.want("the record is gone", w.lookup(1), contract.Miss)
				w.want("so is the memory of unknown tokens", w.lookup(3), contract.Miss)
				w.want("and no floor is left", w.resolve(1), contract.Found)
				w.want("in memory again", w.lookup(1), contract.Found)
			})
		})
	}
}

// A welcome from a place that the filter did not apply cannot be followed: what
// comes before it is not known here.
func TestWelcomeFromElsewhereIsRefused(t *testing.T) {
	inWorld(t, worldConfig{noRedis: true}, func(w *world) {
		l := w.live()
		_ = l.conn.Close()
		next := w.control.accept()
		next.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: "log-2", From: 7})
		last := w.control.accept()
		if last.hello.Log != "log-2" || last.hello.Applied != 0 {
			t.Errorf("hello %+v", last.hello)
		}
		next.expectEnd()
		last.json(contract.FrameWelcome, contract.Welcome{})
		if again := w.control.accept(); again.hello.Log != "log-2" {
			t.Errorf("hello %+v after a welcome without a log", again.hello)
		}
	})
}

// startsAnewBeforeReading puts a token into Redis, and has the filter welcomed with
// another log before it reads a key on behalf of a look-up.
func (w *world) startsAnewBeforeReading(at string, then func()) {
	l := w.live()
	w.store.putClock(0)
	w.store.putRecord(w.t, 1, testRecord(1, 5))
	w.store.reading = func(key string) {
		if key != at {
			return
		}
		w.store.reading = nil
		_ = l.conn.Close()
		next := w.control.accept()
		next.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: "log-2", Trust: testTrust})
		synctest.Wait()
		then()
	}
}

// A look-up reads Redis, the memory begins anew, and only then the look-up ends:
// what it read belongs to another history, in which the record is gone.
func TestLookUpUnderWayLeavesNothing(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result {
			return &contract.Result{Answer: contract.Unknown, Revision: 3}
		}
		w.startsAnewBeforeReading(contract.RedisConsumerKey(testPlane, "consumer-1"), func() {
			w.store.set(contract.RedisRecordKey(testPlane, hashOf(1)), nil)
		})
		w.want("look-up", w.resolve(1), contract.Unknown)
		w.want("in memory", w.lookup(1), contract.Unknown)
	})
}

// A control plane that starts welcomes a filter in the middle of a look-up, and
// cannot answer questions yet: Redis and the trust in it are good, so the look-up is
// repeated under the new log.
func TestLookUpIsRepeatedUnderAnotherLog(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result {
			return &contract.Result{Answer: contract.Unavailable}
		}
		w.startsAnewBeforeReading(contract.RedisCredentialKey(testPlane, "credential-1"), func() {})
		w.want("look-up", w.resolve(1), contract.Found)
		w.want("in memory", w.lookup(1), contract.Found)
		if asked := w.control.asked.Load(); asked != 0 {
			t.Errorf("%d introspections", asked)
		}
	})
}

// What is believed, or what was published, changes while a control plane that
// cannot answer yet is asked: then Redis is asked again, and otherwise not.
func TestRedisIsAskedAgainAfterAChange(t *testing.T) {
	for name, tc := range map[string]struct {
		trust contract.Trust // of the welcome
		clock contract.Position
		then  func(*world, *fakeLink)
		want  contract.Answer
		asked int64
	}{
		"trust is given":         {contract.Trust{}, 9, func(_ *world, l *fakeLink) { l.trust(1, testTrust) }, contract.Found, 1},
		"nothing changes":        {contract.Trust{}, 9, func(*world, *fakeLink) {}, contract.Unavailable, 1},
		"a publication overtook": {testTrust, 0, func(w *world, l *fakeLink) { w.store.putClock(2); l.invalidate(2) }, contract.Found, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldConfig{}, func(w *world) {
				var l *fakeLink
				w.control.introspect = func(*contract.Introspect) *contract.Result {
					tc.then(w, l)
					return &contract.Result{Answer: contract.Unavailable}
				}
				w.control.auto = true
				l = w.control.accept()
				l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog, Trust: tc.trust})
				if tc.trust.Epoch != 0 {
					l.invalidate(1)
				}
				synctest.Wait()
				w.store.putClock(tc.clock)
				w.store.putRecord(t, 1, testRecord(1, 5))
				w.want("look-up", w.resolve(1), tc.want)
				if asked := w.control.asked.Load(); asked != tc.asked {
					t.Errorf("%d introspections", asked)
				}
			})
		})
	}
}

// Answers of a former generation do not enter the table.
func TestTableKeepsFormerGenerationsOut(t *testing.T) {
	tb := newTable(1<<20, &fakeClock{})
	former := tb.generation.Load()
	if now := tb.restart(); now == former {
		t.Fatal("the generation stays")
	}
	h, r := hashOf(1), testRecord(1, 5)
	if tb.admit(former, &h, r, 0, r.Pack(nil), true) || peek(tb, 1) != contract.Miss {
		t.Error("a record of a former generation was admitted")
	}
	tb.remember(former, &h, contract.Unknown, 5, time.Hour)
	if peek(tb, 1) != contract.Miss {
		t.Error("an unknown token of a former generation is remembered")
	}
	mustAdmit(t, tb, 1, r)
}

// Restarts beside readers and late fills: a record that was revoked in its
// generation is found by no look-up that begins later, although restarting
// empties the floor that voids it.
func TestRestartsConcurrently(t *testing.T) {
	const tokens, rounds = 16, 2000
	tb := newTable(1<<20, &fakeClock{})
	var revoked, hits atomic.Uint64 // the newest generation whose records are all revoked
	record := func(k int, generation uint64) *contract.Record {
		r := testRecord(k, 5)
		r.Consumer.ID, r.UserID = "consumer", fmt.Sprintf("%016d", generation)
		return r
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			buf := make([]byte, contract.MaxPacked)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				h, below := hashOf(i%tokens), revoked.Load()
				n, a := tb.peek(&h, buf, Instant{})
				if a != contract.Found {
					continue
				}
				hits.Add(1)
				spans, _ := contract.Unpacked(buf[:n])
				id, of := spans[contract.FieldUserID], uint64(0)
				if _, err := fmt.Sscanf(string(buf[id.Off:id.Off+id.Len]), "%d", &of); err != nil || of <= below {
					t.Errorf("found a record of generation %d, all up to %d are revoked (%v)", of, below, err)
					return
				}
			}
		})
	}
	generation := tb.generation.Load() + 1
	tb.restart()
	for range rounds {
		var late sync.WaitGroup
		late.Go(func() {
			for k := range tokens {
				h, r := hashOf(k), record(k, generation)
				tb.admit(generation, &h, r, 0, r.Pack(nil), true)
			}
		})
		for k := range tokens {
			h, r := hashOf(k), record(k, generation)
			tb.admit(generation, &h, r, 0, r.Pack(nil), true)
		}
		tb.invalidate(&contract.Invalidation{Subject: contract.SubjectConsumer, Plane: testPlane, ID: "consumer", Revision: 6})
		revoked.Store(generation)
		next := tb.restart()
		late.Wait()
		generation = next
	}
	close(stop)
	all.Wait()
	if hits.Load() == 0 {
		t.Error("no look-up found anything: the test says little")
	}
}
