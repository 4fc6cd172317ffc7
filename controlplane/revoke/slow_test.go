package revoke

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// slowStore is a store whose views take time. As in a real store, a view that has begun is
// not cancelled; only the wait for its beginning is.
type slowStore struct {
	store.Store
	mu   sync.Mutex
	took time.Duration
	busy bool
}

func (s *slowStore) take(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took, s.busy = d, false
}

// hang keeps views from beginning.
func (s *slowStore) hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = true
}

// View implements [store.Store].
func (s *slowStore) View(ctx context.Context, fn func(store.Reader) error) error {
	s.mu.Lock()
	took, busy := s.took, s.busy
	s.mu.Unlock()
	if busy {
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	time.Sleep(took)
	return s.Store.View(context.WithoutCancel(ctx), fn)
}

// slowly runs virtually with such a store.
func slowly(t *testing.T, fn func(t *testing.T, w *world, redis *scripted, slow *slowStore)) {
	t.Helper()
	slow := &slowStore{}
	virtually(t, func(o *Options) {
		slow.Store = o.Store
		o.Store, o.Source.(*source).store = slow, slow
	}, func(t *testing.T, w *world, redis *scripted) { fn(t, w, redis, slow) })
}

// A slow store does not keep records out of Redis for ever: each attempt writes at least
// one.
func TestSlowStoreKeepsNoRecordOutOfRedis(t *testing.T) {
	for _, d := range []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, 900 * time.Millisecond} {
		slowly(t, func(t *testing.T, w *world, redis *scripted, slow *slowStore) {
			slow.take(d)
			for _, value := range []string{"a", "b", "c"} {
				w.mint(value, false)
			}
			time.Sleep(time.Minute)
			for _, value := range []string{"a", "b", "c"} {
				if redis.entry(t, value).Record == nil {
					t.Errorf("%v for a view: no record of %s after a minute", d, value)
				}
			}
			slow.take(0)
		})
	}
}

// A revocation is published even if the store is so slow that a view takes longer than its
// limit: a floor that is read late still counts.
func TestFloorThatIsReadLateCounts(t *testing.T) {
	slowly(t, func(t *testing.T, w *world, redis *scripted, slow *slowStore) {
		w.mint("a", false)
		slow.take(storeTimeout + time.Second)
		if _, err := took(t, async(func() error { return w.write(w.touch(gateway.Applications, w.app)) })); err != nil {
			t.Error(err)
		}
		if n := redis.floor(t, contract.RedisCredentialKey(scope, w.app)); n != int(w.store.Revision()) {
			t.Errorf("floor %d at revision %d", n, w.store.Revision())
		}
		slow.take(0)
	})
}

// A slow store is not a failure of Redis: revocations are still written to Redis and
// confirmed, and filters keep believing it. A store that does not answer at all delays no
// caller for longer than its patience. Redis then lacks the revocation, and no filter is
// told to believe it until it has it.
func TestSlowStoreIsNotAFailureOfRedis(t *testing.T) {
	slowly(t, func(t *testing.T, w *world, redis *scripted, slow *slowStore) {
		w.mint("a", false)
		f, _ := w.pipe("away", contract.Hello{Instance: "i"})
		f.lease()
		f.cut() // it may keep believing Redis
		time.Sleep(contract.Lease)
		w.r.mu.Lock()
		told := w.r.trustAt
		w.r.mu.Unlock()
		floor := func() int { return redis.floor(t, contract.RedisCredentialKey(scope, w.app)) }

		slow.take(time.Second)
		if _, err := took(t, async(func() error { return w.write(w.touch(gateway.Applications, w.app)) })); err != nil {
			t.Errorf("while the store is slow: %v", err)
		}
		if n := floor(); n != int(w.store.Revision()) {
			t.Errorf("floor %d at revision %d", n, w.store.Revision())
		}
		w.r.mu.Lock()
		if w.r.trustAt != told || w.r.trust.Epoch == 0 {
			t.Errorf("filters were told to believe %+v at %d, and before at %d", w.r.trust, w.r.trustAt, told)
		}
		w.r.mu.Unlock()

		slow.hang()
		done := async(func() error { return w.write(w.touch(gateway.Applications, w.app)) })
		_, err := took(t, done)
		says(t, err, "away")
		want := int(w.store.Revision())
		if s := w.r.Stats(); s.Trusted || s.RedisUp || floor() == want {
			t.Errorf("Redis is believed without the floor: %+v", s)
		}
		slow.take(0)
		w.settles(t)
		if n := floor(); n != want || w.r.Stats().Pending != 0 {
			t.Errorf("floor %d, want %d, %d pending", n, want, w.r.Stats().Pending)
		}
	})
}

// A clock that was just written, and whose answer is on its way, is not mistaken for a
// clock that another process has written.
func TestClockThatIsBeingWrittenIsNoOther(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		name := w.mint("a", false)
		redis.be(unheard)
		done := async(func() error { return w.delete(name) })
		synctest.Wait() // the tombstone is written
		redis.open()
		synctest.Wait() // the clock is written
		time.Sleep(2 * watchEvery)
		synctest.Wait()
		if s := w.r.Stats(); !s.RedisUp || !s.Trusted {
			t.Errorf("Redis is taken for another one: %+v", s)
		}
		redis.be(fine)
		redis.open()
		if _, err := took(t, done); err != nil {
			t.Error(err)
		}
		if s := w.r.Stats(); !s.RedisUp || !s.Trusted {
			t.Errorf("Redis is taken for another one: %+v", s)
		}
	})
}
