package revoke

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn"
)

// telling is a Redis that reports the time of its clock.
type telling struct {
	*scripted
	mu    sync.Mutex
	ahead time.Duration
}

func (a *telling) set(ahead time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ahead = ahead
}

func (a *telling) tell(all []redisconn.Server) []redisconn.Server {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range all {
		all[i].Time, all[i].Ahead = time.Now().Add(a.ahead), a.ahead
	}
	return all
}

func (a *telling) pin(ctx context.Context) ([]redisconn.Server, error) {
	all, err := a.scripted.pin(ctx)
	return a.tell(all), err
}

func (a *telling) identify(ctx context.Context) ([]redisconn.Server, error) {
	all, err := a.scripted.identify(ctx)
	return a.tell(all), err
}

// A Redis whose clock is set ahead has dropped records, and no filter has noticed yet. A
// new epoch is drawn. Filters then report what they use, and it is written again with
// expiries that this clock does not reach early. A clock that is set back has dropped
// nothing.
func TestRedisWhoseClockIsSetAheadIsFilledAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		set    time.Duration
		refill bool
	}{
		"a day ahead": {25 * time.Hour, true}, "a minute ahead": {time.Minute, false}, "back": {-25 * time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				redis := &telling{scripted: newScripted("run-1")}
				var told []error
				w := &world{t: t, virtual: true, remote: redis, tweak: func(o *Options) {
					o.RedisState = func(err error) { told = append(told, err) }
				}}
				w.init(nil)
				w.settles(t)
				before := redis.clockNow(t).Epoch
				redis.set(tt.set)
				for range 5 {
					time.Sleep(watchEvery)
					synctest.Wait()
				}
				w.settles(t)
				if drawn := redis.clockNow(t).Epoch != before; drawn != tt.refill {
					t.Errorf("an epoch was drawn: %v; %v", drawn, told)
				}
				w.mint("a", false)
				synctest.Wait()
				key := contract.RedisRecordKey(scope, contract.HashToken([]byte("a")))
				redis.scripted.mu.Lock()
				ends := time.UnixMilli(redis.expiries[key])
				redis.scripted.mu.Unlock()
				if left := ends.Sub(time.Now().Add(tt.set)); left < contract.RecordLife-time.Minute {
					t.Errorf("by the clock of redis, the record ends in %v", left)
				}
				if until := time.UnixMilli(redis.entry(t, "a").Record.Until); time.Until(until) > contract.RecordLife {
					t.Errorf("it is good for %v", time.Until(until))
				}
				stay := redis.clockNow(t).Epoch
				redis.set(0) // back to where it was: nothing is dropped
				w.settles(t)
				w.settles(t)
				if redis.clockNow(t).Epoch != stay && tt.set >= 0 {
					t.Error("an epoch was drawn for a clock that was set right")
				}
			})
		})
	}
}

// twice is a telling Redis whose clock is set ahead once more right after it was checked,
// while it is put in order.
type twice struct {
	*telling
	more time.Duration
}

func (a *twice) pin(ctx context.Context) ([]redisconn.Server, error) {
	all, err := a.telling.pin(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ahead, a.more = a.ahead+a.more, 0
	return all, err
}

// The reference is the check by which the keeper decided what counts, and not the next
// check. A clock that was set ahead between the two has dropped what was written by then.
func TestRedisWhoseClockIsSetAheadTwice(t *testing.T) {
	for more, want := range map[time.Duration]int{day: 2, time.Minute: 1} {
		synctest.Test(t, func(t *testing.T) {
			redis, drawn := &twice{telling: &telling{scripted: newScripted("run-1")}}, 0
			w := &world{t: t, virtual: true, remote: redis}
			w.init(nil)
			w.settles(t)
			redis.mu.Lock()
			redis.more = more
			redis.mu.Unlock()
			last := redis.clockNow(t).Epoch
			redis.set(day)
			for range 2000 {
				time.Sleep(10 * time.Millisecond)
				synctest.Wait()
				if now := redis.clockNow(t).Epoch; now != last {
					last, drawn = now, drawn+1
				}
			}
			if drawn != want {
				t.Errorf("%v more: %d epochs were drawn, want %d", more, drawn, want)
			}
		})
	}
}
