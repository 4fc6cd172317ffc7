package revoke

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
)

// forgetful runs a control plane that starts with an empty store, as after another process
// of which nothing is remembered.
func forgetful(t *testing.T, redis func() remote, forgotten bool, fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, virtual: true, remote: redis(), fresh: forgotten}
		w.init(nil)
		w.close(w.r)
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
		w.store = w.openStore()
		w.source.store = w.store
		w.open(nil)
		fn(w)
	})
}

// A process with a store in memory may have given a filter a lease, and the next process
// knows no filter. Neither a revocation nor "already gone" is answered before that lease
// has ended. A new store that persists does not have to wait.
func TestStoreInMemoryWaitsForTheFirstLease(t *testing.T) {
	for name, redis := range map[string]func() remote{
		"with redis": func() remote { return newScripted("run-1") },
		"without":    func() remote { return nil },
	} {
		for _, forgotten := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, forgotten %v", name, forgotten), func(t *testing.T) {
				forgetful(t, redis, forgotten, func(w *world) {
					t := w.t
					begun := time.Now()
					want := time.Duration(0)
					if forgotten {
						want = contract.Lease
					}
					gone := async(func() error { return w.r.Settle(t.Context()) })
					w.seed()
					if err := w.write(w.touch(gateway.Applications, w.app)); err != nil || time.Since(begun) != want {
						t.Errorf("a revocation is answered with %v after %v, want %v", err, time.Since(begun), want)
					}
					if err := <-gone; err != nil || time.Since(begun) != want {
						t.Errorf("already gone is answered with %v after %v, want %v", err, time.Since(begun), want)
					}
					// Later there is nothing to wait for.
					begun = time.Now()
					if err := w.write(w.touch(gateway.Applications, w.app)); err != nil || time.Since(begun) != 0 {
						t.Errorf("later: %v after %v", err, time.Since(begun))
					}
				})
			})
		}
	}
}

// A filter that is not remembered may read Redis according to what the former process told
// it. It stops when Redis is put in order under another epoch. Until then nothing is
// confirmed, for as long as such a filter believes what it was told.
func TestStoreInMemoryWaitsForRedis(t *testing.T) {
	var redis *scripted
	away := func() remote {
		redis = inMood(gone)
		return redis
	}
	forgetful(t, away, true, func(w *world) {
		w.seed()
		says(w.t, w.write(w.touch(gateway.Applications, w.app)), "its predecessor")
		redis.be(fine)
		time.Sleep(2 * maxBackoff)
		if err := w.write(w.touch(gateway.Applications, w.app)); err != nil {
			w.t.Errorf("redis is in order: %v", err)
		}
		redis.be(gone)
		time.Sleep(2 * watchEvery)
		if err := w.write(w.touch(gateway.Applications, w.app)); err != nil {
			w.t.Errorf("redis was in order: %v", err)
		}
	})
	forgetful(t, away, true, func(w *world) {
		w.seed()
		time.Sleep(contract.TrustFor)
		says(w.t, w.write(w.touch(gateway.Applications, w.app)), "its predecessor")
		time.Sleep(contract.RememberFilter - contract.TrustFor)
		if err := w.write(w.touch(gateway.Applications, w.app)); err != nil {
			w.t.Errorf("a day later: %v", err)
		}
	})
}
