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

// slowStore is a store whose views take their time. As in the store of a process, one
// that has begun is not broken off; only the wait for the beginning is.
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

// hang lets no view begin.
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

// slowly is virtually with such a store.
func slowly(t *testing.T, fn func(t *testing.T, w *world, redis *scripted, slow *slowStore)) {
	t.Helper()
	slow := &slowStore{}
	virtually(t, func(o *Options) {
		slow.Store = o.Store
		o.Store, o.Source.(*source).store = slow, slow
	}, func(t *testing.T, w *world, redis *scripted) { fn(t, w, redis, slow) })
}

// A store that is slow keeps no record out of Redis for ever: each time at least one
// gets there.
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

// What is revoked while the store is so slow that a view takes longer than it may is
// published when it is read: a floor that is known late is as good.
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

// A store that is slow says nothing about Redis: what is revoked then is written there
// and confirmed, and filters go on believing it. One that does not answer at all holds
// up nobody for longer than a caller waits; then Redis lacks what was revoked, and
// nobody is told to believe it until it has that.
func TestSlowStoreIsNotAFailureOfRedis(t *testing.T) {
	slowly(t, func(t *testing.T, w *world, redis *scripted, slow *slowStore) {
		w.mint("a", false)
		f, _ := w.pipe("away", contract.Hello{Instance: "i"})
		f.lease()
		f.cut() // it may go on believing Redis
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

// A clock that was written a moment ago, and whose answer is on its way, is no clock
// that somebody else has written.
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
