package tokencache

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// Each test is a race of the link, or a state of it, as docs/adr/0003-freshness.md describes them.

func TestLiveLinkFillsL1(t *testing.T) {
	inWorld(t, worldConfig{noRedis: true}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 5) }
		l := w.live()
		if l.hello.Version != contract.LinkVersion || l.hello.Instance == "" || l.hello.Log != "" || l.hello.Applied != 0 {
			t.Errorf("hello: %+v", l.hello)
		}
		w.want("first use", w.lookup(1), contract.Miss)
		w.want("look-up", w.resolve(1), contract.Found)
		w.want("second use", w.lookup(1), contract.Found)
		l.invalidate(1, tokenGone(1, 6))
		l.expectAck(1)
		w.want("after the acknowledgement", w.lookup(1), contract.Miss)
		w.control.introspect = func(*contract.Introspect) *contract.Result {
			return &contract.Result{Answer: contract.Unknown, Revision: 6}
		}
		w.want("revoked", w.resolve(1), contract.Unknown)
		w.want("remembered", w.lookup(1), contract.Unknown)
		// Created again by an administrator: an invalidation too.
		l.invalidate(2, tokenGone(1, 7))
		l.expectAck(2)
		w.want("created again", w.lookup(1), contract.Miss)
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 7) }
		w.want("created again, look-up", w.resolve(1), contract.Found)
		w.want("created again, second use", w.lookup(1), contract.Found)
	})
}

func TestOwnersInvalidateTheirTokens(t *testing.T) {
	inWorld(t, worldConfig{noRedis: true}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 5) }
		l := w.live()
		for i, it := range []contract.Invalidation{
			{Subject: contract.SubjectCredential, ID: "credential-1", Revision: 8},
			{Subject: contract.SubjectConsumer, ID: "consumer-1", Revision: 9},
		} {
			w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, it.Revision-1) }
			w.want("look-up", w.resolve(1), contract.Found)
			l.invalidate(contract.Position(i+1), it)
			l.expectAck(contract.Position(i + 1))
			w.want("owner invalidated", w.lookup(1), contract.Miss)
		}
		if got := w.cache.Stats().Applied; got != 2 {
			t.Errorf("applied %d", got)
		}
	})
}

// Fill racing with revoke: the answer was read before the revocation and
// arrives after it was acknowledged.
func TestFillRacingWithRevoke(t *testing.T) {
	inWorld(t, worldConfig{noRedis: true}, func(w *world) {
		var l *fakeLink
		asked := 0
		w.control.introspect = func(*contract.Introspect) *contract.Result {
			if asked++; asked == 1 {
				l.invalidate(1, tokenGone(1, 6))
				return found(1, 5)
			}
			return &contract.Result{Answer: contract.Unknown, Revision: 6}
		}
		l = w.live()
		w.want("look-up overtaken by the revocation", w.resolve(1), contract.Unknown)
		l.expectAck(1)
		if asked != 2 {
			t.Errorf("asked %d times, want 2", asked)
		}
		w.want("afterwards", w.lookup(1), contract.Unknown)
	})
}

// The same race through Redis: the record is read, then the revocation is
// applied, then the record arrives at the floors.
func TestRedisFillRacingWithRevoke(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result {
			return &contract.Result{Answer: contract.Unknown, Revision: 6}
		}
		l := w.live()
		w.store.putRecord(t, 1, testRecord(1, 5))
		w.store.putClock(1)
		w.store.reading = func(key string) {
			if key == contract.RedisCredentialKey(testPlane, "credential-1") {
				l.invalidate(1, tokenGone(1, 6))
				l.expectAck(1)
			}
		}
		w.want("look-up", w.resolve(1), contract.Unknown)
		w.want("afterwards", w.lookup(1), contract.Unknown)
	})
}

// A waiter that arrives after a read began must not get what that read found.
func TestLateWaiterGetsNoOlderRead(t *testing.T) {
	inWorld(t, worldConfig{static: true}, func(w *world) {
		w.store.putRecord(t, 1, testRecord(1, 5))
		late := make(chan contract.Answer, 1)
		joined := false
		w.store.reading = func(key string) {
			if joined || key != contract.RedisClockKey {
				return
			}
			// The record has been read. Now it is revoked, and then a request comes.
			joined = true
			w.store.set(contract.RedisRecordKey(testPlane, hashOf(1)), contract.MarshalTombstone(6))
			w.cache.Resolve(hashOf(1), testPlugin, func(a contract.Answer, _ []byte) { late <- a })
		}
		w.want("the request that overlaps", w.resolve(1), contract.Found)
		w.want("the request that came after", <-late, contract.Revoked)
	})
}

func TestHalfOpenLink(t *testing.T) {
	inWorld(t, worldConfig{noRedis: true}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 5) }
		l := w.live()
		w.want("look-up", w.resolve(1), contract.Found)
		l.mute.Store(true)
		w.advance(contract.Lease - contract.LeaseMargin - contract.RenewEvery)
		w.want("within the lease", w.lookup(1), contract.Found)
		// The last grant was for a Renew sent at 0: 2.7 s later it is over.
		w.advance(contract.RenewEvery - time.Nanosecond)
		w.want("at the end of the lease", w.lookup(1), contract.Found)
		w.advance(time.Nanosecond)
		w.want("after the lease", w.lookup(1), contract.Miss)
		w.want("look-up after the lease", w.resolve(1), contract.Unavailable)
		// Silence makes the filter connect anew.
		next := w.control.accept()
		next.welcome()
		synctest.Wait()
		w.want("after the new link's first grant", w.lookup(1), contract.Found)
	})
}

// An invalidation is lost with its link: the lease ends, and the next link
// brings it before its first grant.
func TestLostInvalidationIsSentAgain(t *testing.T) {
	inWorld(t, worldConfig{noRedis: true}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 5) }
		l := w.live()
		l.invalidate(1, tokenGone(2, 4))
		l.expectAck(1)
		w.want("look-up", w.resolve(1), contract.Found)
		w.control.auto = false
		_ = l.conn.Close()
		next := w.control.accept()
		if next.hello.Log != testLog || next.hello.Applied != 1 || next.hello.Instance != l.hello.Instance {
			t.Errorf("hello after the break: %+v", next.hello)
		}
		w.want("the lease outlives its link", w.lookup(1), contract.Found)
		next.welcome()
		next.expect(contract.FrameRenew)
		next.expectAck(1) // again: the first may have been lost with its link
		w.advance(contract.Lease - contract.LeaseMargin)
		w.want("without a grant", w.lookup(1), contract.Miss)
		for range 3 { // Renews that were not granted
			next.expect(contract.FrameRenew)
		}
		next.invalidate(2, tokenGone(1, 6))
		next.expectAck(2)
		renew := contract.EncodeNumber(4)
		next.send(contract.FrameGranted, renew)
		synctest.Wait()
		if !w.cache.Stats().Leased {
			t.Error("no lease after the grant")
		}
		w.want("the missed revocation holds", w.lookup(1), contract.Miss)
	})
}

func TestFloorInWelcomeVoidsOlderRecords(t *testing.T) {
	inWorld(t, worldConfig{noRedis: true}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 5) }
		l := w.live()
		w.want("look-up", w.resolve(1), contract.Found)
		_ = l.conn.Close()
		next := w.control.accept()
		next.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: "log-2", Floor: 7})
		synctest.Wait()
		w.want("below the floor", w.lookup(1), contract.Miss)
		w.want("an answer below the floor", w.resolve(1), contract.Unavailable)
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 7) }
		w.want("a newer answer", w.resolve(1), contract.Found)
	})
}

// Grants count from the Renew they answer, and only from one that was sent on
// this link.
func TestGrantCountsFromItsRenew(t *testing.T) {
	inWorld(t, worldConfig{noRedis: true}, func(w *world) {
		l := w.control.accept()
		l.welcome()
		first := l.expect(contract.FrameRenew)
		l.send(contract.FrameGranted, contract.EncodeNumber(77))
		l.send(contract.FrameGranted, contract.EncodeNumber(0))
		synctest.Wait()
		if w.cache.Stats().Leased {
			t.Fatal("a grant for a Renew never sent gave a lease")
		}
		w.advance(2 * time.Second)
		l.send(contract.FrameGranted, first)
		synctest.Wait()
		if !w.cache.Stats().Leased {
			t.Fatal("no lease")
		}
		w.advance(700*time.Millisecond - time.Nanosecond)
		if !w.cache.Stats().Leased {
			t.Error("lease over before 2.7 s after its Renew")
		}
		w.advance(time.Nanosecond)
		if w.cache.Stats().Leased {
			t.Error("lease not over 2.7 s after its Renew")
		}
	})
}

// Redis loses a write: its clock is older than what this filter has applied.
func TestRedisThatLostAWriteIsNotTrusted(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 9) }
		l := w.live()
		w.store.putRecord(t, 1, testRecord(1, 9))
		w.store.putClock(0)
		l.invalidate(1, tokenGone(2, 8))
		l.expectAck(1)
		w.want("look-up", w.resolve(1), contract.Found)
		if s := w.cache.Stats(); s.L2Untrusted != 1 || s.L2Hits != 0 || s.Introspections != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// Control plane away: L1 until the lease ends, then a trusted L2; what L2 does
// not have cannot be decided.
func TestUnlinked(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.control.introspect = func(q *contract.Introspect) *contract.Result { return found(1, 5) }
		l := w.live()
		w.want("look-up", w.resolve(1), contract.Found)
		w.control.down.Store(true)
		_ = l.conn.Close()
		synctest.Wait()
		w.want("link down, lease live", w.lookup(1), contract.Found)
		w.want("an L1 miss that L2 does not have", w.resolve(2), contract.Unavailable)
		w.advance(contract.Lease)
		w.want("lease over", w.lookup(1), contract.Miss)
		w.want("not in L2", w.resolve(1), contract.Unavailable)
		w.store.putRecord(t, 1, testRecord(1, 5))
		w.store.putClock(0)
		w.want("in L2", w.resolve(1), contract.Found)
		w.want("L1 stays bypassed", w.lookup(1), contract.Miss)
		w.store.set(contract.RedisRecordKey(testPlane, hashOf(1)), contract.MarshalTombstone(6))
		w.want("revoked in L2", w.resolve(1), contract.Unavailable)
		w.store.fail = errUnreachable
		w.want("both away", w.resolve(1), contract.Unavailable)
		w.store.fail = nil
		w.control.down.Store(false)
		next := w.control.accept()
		if next.hello.Instance != l.hello.Instance {
			t.Error("another instance after the break")
		}
	})
}

func TestGrace(t *testing.T) {
	inWorld(t, worldConfig{cache: contract.CacheSettings{Grace: 5000}}, func(w *world) {
		w.control.introspect = func(q *contract.Introspect) *contract.Result { return found(1, 5) }
		l := w.live()
		w.want("look-up", w.resolve(1), contract.Found)
		w.control.down.Store(true)
		_ = l.conn.Close()
		w.advance(contract.Lease)
		w.want("L2 answers without a record: no grace", w.resolve(1), contract.Unavailable)
		w.store.fail = errUnreachable
		w.want("L1 alone does not answer", w.lookup(1), contract.Miss)
		w.want("grace", w.resolve(1), contract.Found)
		w.want("grace knows no other token", w.resolve(2), contract.Unavailable)
		if got := w.cache.Stats().StaleServed; got != 1 {
			t.Errorf("stale served %d", got)
		}
		w.advance(5 * time.Second)
		w.want("grace is over", w.resolve(1), contract.Unavailable)
	})
}

func TestStatic(t *testing.T) {
	inWorld(t, worldConfig{static: true}, func(w *world) {
		r := testRecord(1, 5)
		r.Expires = time.Now().Add(time.Minute).UnixMilli()
		w.store.putRecord(t, 1, r)
		w.want("known", w.resolve(1), contract.Found)
		w.want("every request asks Redis", w.lookup(1), contract.Miss)
		w.want("unknown", w.resolve(2), contract.Unknown)
		w.store.fail = errUnreachable
		w.want("redis away", w.resolve(1), contract.Unavailable)
		w.store.fail = nil
		w.advance(time.Minute - time.Millisecond)
		w.want("a millisecond before its end", w.resolve(1), contract.Found)
		w.advance(time.Millisecond)
		w.want("expired", w.resolve(1), contract.Expired)
		w.store.set(contract.RedisRecordKey(testPlane, hashOf(1)), []byte("x"))
		w.want("a damaged record may be a good token", w.resolve(1), contract.Unavailable)
	})
}

// An introspected record that has expired is as good as unknown, and so is one
// that expires in L1; neither asks again and again.
func TestExpiredRecords(t *testing.T) {
	inWorld(t, worldConfig{noRedis: true}, func(w *world) {
		r := testRecord(1, 5)
		r.Expires = time.Now().Add(time.Second).UnixMilli()
		w.control.introspect = func(*contract.Introspect) *contract.Result {
			return &contract.Result{Answer: contract.Found, Revision: 5, Record: r}
		}
		w.live()
		w.want("look-up", w.resolve(1), contract.Found)
		w.advance(time.Second - time.Millisecond)
		w.want("a millisecond before its end", w.lookup(1), contract.Found)
		w.advance(time.Millisecond)
		w.want("at its end", w.lookup(1), contract.Expired)
		r = testRecord(2, 5)
		r.Expires = time.Now().UnixMilli()
		w.want("answered after its end", w.resolve(2), contract.Expired)
		w.want("and remembered", w.lookup(2), contract.Expired)
	})
}

func TestCloseSaysGoodbyeWithoutALease(t *testing.T) {
	inWorld(t, worldConfig{noRedis: true}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 5) }
		l := w.live()
		w.want("look-up", w.resolve(1), contract.Found)
		hold := make(chan struct{})
		w.control.hold.Store(&hold)
		w.advance(contract.RenewEvery) // from now on the control plane reads nothing
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			w.cache.Close()
		}()
		synctest.Wait() // the goodbye is on its way
		if w.cache.Stats().Leased {
			t.Error("the lease outlives the goodbye")
		}
		close(hold)
		l.expect(contract.FrameBye)
		<-closed
		w.want("closed", w.lookup(1), contract.Miss)
		w.want("closed", w.resolve(1), contract.Unavailable)
	})
}

// The node token is read anew for every connection.
func TestRotatedTokenServesTheNextConnection(t *testing.T) {
	inWorld(t, worldConfig{noRedis: true}, func(w *world) {
		l := w.live()
		w.writeToken("rotated")
		_ = l.conn.Close()
		next := w.control.accept()
		next.welcome()
		synctest.Wait()
		if got := w.cache.Stats(); got.LinkConnects != 2 || !got.Leased {
			t.Errorf("%+v", got)
		}
	})
}

// A frame that cannot be applied must end the link unacknowledged.
func TestBadFramesEndTheLink(t *testing.T) {
	for name, f := range map[string]fakeFrame{
		"invalidate": {contract.FrameInvalidate, []byte{1}},
		"trust":      {contract.FrameTrust, []byte(`{"x":1}`)},
		"refilled":   {contract.FrameRefilled, nil},
		"granted":    {contract.FrameGranted, nil},
		"result":     {contract.FrameResult, nil},
		"unknown":    {99, nil},
		"hello":      {contract.FrameHello, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldConfig{noRedis: true}, func(w *world) {
				l := w.live()
				l.send(f.kind, f.body)
				w.control.accept()
				if _, open := <-l.frames; open {
					t.Error("the frame was answered")
				}
			})
		})
	}
}
