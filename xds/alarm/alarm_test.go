package alarm_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/xds/alarm"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a wall clock that can be set while the timers of its host continue.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time               { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) jump(by time.Duration)        { c.ahead.Add(int64(by)) }
func (c *clock) in(d time.Duration) time.Time { return c.now().Add(d) }

// waiting starts the three ways to wait for a moment. rang returns how many of them have
// ended.
func waiting(c *clock, at time.Time) (rang func() int, stop func()) {
	var n atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a := alarm.New(c.now)
		a.Set(at)
		defer a.Set(time.Time{})
		for {
			select {
			case <-a.C():
				if a.Due() {
					n.Add(1)
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	waited := make(chan error, 1)
	go func() {
		err := alarm.Wait(ctx, c.now, at)
		if err == nil {
			n.Add(1)
		}
		waited <- err
	}()
	call := alarm.AfterFunc(c.now, at, func() { n.Add(1) })
	return func() int { synctest.Wait(); return int(n.Load()) }, func() { call.Stop(); cancel(); <-ended; <-waited }
}

// TestAlarm says when a moment in one hour comes, in time awake, for different changes of the
// clock.
func TestAlarm(t *testing.T) {
	for name, tc := range map[string]struct {
		jumps time.Duration // of the wall clock, after ten minutes
		after time.Duration // when the moment comes, in time awake
		late  time.Duration // at most
	}{
		"nothing happens":          {0, time.Hour, 0},
		"the host sleeps past it":  {5 * time.Hour, 10 * time.Minute, alarm.Slice},
		"the host sleeps a little": {20 * time.Minute, 40 * time.Minute, 0},
		"the clock was ahead":      {-20 * time.Minute, 80 * time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c clock
				rang, stop := waiting(&c, c.in(time.Hour))
				defer stop()
				start := time.Now()
				time.Sleep(10*time.Minute - time.Second)
				rang()
				time.Sleep(time.Second)
				c.jump(tc.jumps)
				time.Sleep(tc.after - time.Since(start) - 1)
				if n := rang(); n != 0 && tc.late == 0 {
					t.Errorf("%d of three rang before", n)
				}
				time.Sleep(tc.late + 1)
				if n := rang(); n != 3 {
					t.Errorf("%d of three rang", n)
				}
			})
		})
	}
}

// TestAlarmStops: a stopped alarm does not ring, and an alarm that is not set is silent.
func TestAlarmStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		rang, stop := waiting(&c, c.in(3*alarm.Slice))
		time.Sleep(2 * alarm.Slice)
		stop()
		c.jump(time.Hour)
		time.Sleep(2 * alarm.Slice)
		if n := rang(); n != 0 {
			t.Errorf("%d rang after they were stopped", n)
		}
		a := alarm.New(nil)
		if a.C() != nil || a.Due() {
			t.Error("an alarm that is not set rings")
		}
		a.Set(time.Now().Add(-time.Second))
		if <-a.C(); !a.Due() {
			t.Error("a moment of the past has not come")
		}
		called := false
		defer alarm.AfterFunc(nil, time.Now().Add(time.Second), func() { called = true }).Stop()
		time.Sleep(time.Second)
		if synctest.Wait(); !called {
			t.Error("a call by the clock of the host was not made")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := alarm.Wait(ctx, nil, time.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) {
			t.Errorf("the wait ended with %v", err)
		}
	})
}
