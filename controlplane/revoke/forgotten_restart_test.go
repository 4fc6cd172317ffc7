package revoke

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// Filters that the first process on a store does not know are not known to its successors
// either, however the first process ended. Nothing is confirmed before Redis was put in
// order once.
func TestWhoIsForgottenIsSoAfterARestart(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"clean": func(w *world) { w.close(w.r) },
		"crash": func(w *world) { w.r.calls.wait(w.t.Context()); w.crash() },
	} {
		for mode, how := range map[string]mood{"gone": gone, "full": full} {
			t.Run(name+", redis "+mode, func(t *testing.T) {
				var redis *scripted
				broken := func() remote { redis = inMood(how); return redis }
				forgetful(t, broken, true, func(w *world) {
					time.Sleep(contract.Lease)
					for range 2 {
						end(w)
						w.open(nil)
						begun := time.Now()
						says(w.t, w.r.Settle(w.t.Context()), "remember")
						if time.Since(begun) < contract.Lease {
							w.t.Errorf("answered after %v", time.Since(begun))
						}
					}
					redis.be(fine)
					time.Sleep(2 * maxBackoff)
					if err := w.r.Settle(w.t.Context()); err != nil {
						w.t.Errorf("redis is in order: %v", err)
					}
					time.Sleep(watchEvery)
					end(w)
					redis.be(gone)
					w.open(nil)
					if err := w.r.Settle(w.t.Context()); err != nil {
						w.t.Errorf("redis was in order before the restart: %v", err)
					}
				})
			})
		}
	}
}

// A filter that was first linked after the backup reads Redis, but is not remembered.
func TestRestoredStoreWaitsForRedis(t *testing.T) {
	for _, restart := range []bool{false, true} {
		jumps(t, false, func(j *jumping) {
			j.redis.be(gone)
			j.restored(0, 0, nil)
			if restart {
				j.redis.be(full) // the epoch is decided, but not written
				j.rest()
				j.close(j.r)
				j.redis.be(gone)
				j.open(nil)
			}
			says(j.t, j.r.Settle(j.t.Context()), "remember")
			says(j.t, j.revoke(j.touchApp()), "remember")
			j.redis.be(fine)
			j.rest()
			if err := j.revoke(j.touchApp()); err != nil {
				j.t.Errorf("restarted %v, redis is in order: %v", restart, err)
			}
		})
	}
}

// A process without Redis keeps for the next process with Redis that filters were
// forgotten.
func TestWhoIsForgottenIsSoAfterAProcessWithoutRedis(t *testing.T) {
	forgetful(t, func() remote { return nil }, true, func(w *world) {
		redis := w.reopenAway()
		says(w.t, w.r.Settle(w.t.Context()), "remember")
		redis.be(fine)
		time.Sleep(2 * maxBackoff)
		if err := w.r.Settle(w.t.Context()); err != nil {
			w.t.Error(err)
		}
	})
	forgetful(t, func() remote { return nil }, true, func(w *world) {
		time.Sleep(contract.RememberFilter + rememberEvery)
		w.reopenAway()
		if err := w.r.Settle(w.t.Context()); err != nil {
			w.t.Errorf("a day later: %v", err)
		}
	})
}

// After a day, waiting callers are told and nothing stays unconfirmed.
func TestWaitForTheForgottenEnds(t *testing.T) {
	forgetful(t, func() remote { return inMood(gone) }, true, func(w *world) {
		if n := w.r.Stats().Pending; n != 1 {
			w.t.Errorf("%d are unconfirmed at first", n)
		}
		time.Sleep(contract.RememberFilter + rememberEvery)
		if n := w.r.Stats().Pending; n != 0 {
			w.t.Errorf("%d are unconfirmed after a day", n)
		}
	})
}

// A clock jump while no Redis was used is remembered until Redis is used again: records
// that are still there may be accepted although their revocations are hidden.
func TestGapBeforeAProcessWithoutRedis(t *testing.T) {
	for name, between := range map[string]func(j *jumping){
		"that ended":       func(j *jumping) { j.close(j.r) },
		"that was killed":  func(j *jumping) { j.crash() },
		"that saw no link": func(j *jumping) { j.sleep(time.Hour); j.close(j.r) },
	} {
		t.Run(name, func(t *testing.T) {
			jumps(t, false, func(j *jumping) {
				j.revokeUnheard()
				was := j.trusts[0].Epoch
				j.close(j.r)
				j.wall.Set(2 * day)
				j.remote = nil
				j.open(nil)
				j.rest()
				between(j)
				j.remote = j.redis
				j.open(nil)
				says(j.t, j.r.Settle(j.t.Context()), "node")
				j.redis.be(fine)
				j.rest()
				if now := j.trust().Epoch; now == was {
					t.Error("what stood in redis counts")
				}
				if err := j.r.Settle(j.t.Context()); err != nil {
					t.Errorf("redis is in order: %v", err)
				}
			})
		})
	}
}

// A process that drew an epoch but could not write it does not clear the gap either.
func TestGapBeforeAProcessThatCouldNotWrite(t *testing.T) {
	jumps(t, false, func(j *jumping) {
		j.revokeUnheard()
		j.close(j.r)
		j.wall.Set(2 * day)
		j.redis.be(full)
		j.open(nil)
		j.sleep(rememberEvery)
		j.close(j.r)
		j.redis.be(gone)
		j.open(nil)
		says(j.t, j.r.Settle(j.t.Context()), "node")
	})
}

// Records of a clock that was ahead end later than anything that is remembered. This also
// holds for the processes after a process without Redis.
func TestRecordsThatOutliveAProcessWithoutRedis(t *testing.T) {
	for _, end := range []func(j *jumping){func(j *jumping) { j.close(j.r) }, func(j *jumping) { j.crash() }} {
		jumps(t, false, func(j *jumping) {
			j.restart(5 * day)
			j.mint("a", false)
			j.use("a")
			was := j.trust().Epoch
			j.close(j.r)
			j.wall.Set(0)
			j.remote = nil
			j.open(nil)
			j.rest()
			end(j)
			j.remote = j.redis
			j.open(nil)
			j.rest()
			if j.trust().Epoch == was {
				t.Error("records count that outlive revocations")
			}
		})
	}
}

// reopenAway ends the process and starts another one whose Redis is away.
func (w *world) reopenAway() *scripted {
	w.close(w.r)
	redis := inMood(gone)
	w.remote = redis
	w.open(nil)
	return redis
}

// revokeUnheard revokes a token in use. The revocation reaches neither Redis, which is away
// from now on, nor the filter that has accepted the token.
func (j *jumping) revokeUnheard() {
	token := j.mint("a", false)
	j.use("a")
	f, _ := j.pipe("node", contract.Hello{Instance: "i"})
	j.rest()
	f.cut()
	j.redis.be(gone)
	says(j.t, j.revoke(j.remove(token)), "node")
}
