package meshca

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/xds/alarm"
)

// renewalBubble runs renewals. fired returns when proxies were due, counted from the start.
func renewalBubble(t *testing.T, f func(r *Renewals, fired func() map[string]time.Duration)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		start := time.Now()
		var mu sync.Mutex
		fired := map[string]time.Duration{}
		r := NewRenewals(func(m, d string) {
			mu.Lock()
			defer mu.Unlock()
			if _, twice := fired[m+"/"+d]; twice {
				t.Errorf("%s/%s was due twice", m, d)
			}
			fired[m+"/"+d] = time.Since(start)
		})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		f(r, func() map[string]time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(fired)
		})
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
	})
}

func TestRenewalsAreSpread(t *testing.T) {
	renewalBubble(t, func(r *Renewals, fired func() map[string]time.Duration) {
		const n = 1000
		now := time.Now()
		for i := range n {
			r.Note("m", fmt.Sprint(i), now, now.Add(1000*time.Second))
		}
		time.Sleep(700*time.Second - 1)
		synctest.Wait()
		if len(fired()) != 0 {
			t.Errorf("%d are due before 70%% of their life", len(fired()))
		}
		time.Sleep(100*time.Second + 1)
		synctest.Wait()
		if len(fired()) != n {
			t.Errorf("%d of %d are due by 80%% of their life", len(fired()), n)
		}
		first := 0
		for _, at := range fired() {
			if at < 750*time.Second {
				first++
			}
		}
		if first < n*4/10 || first > n*6/10 {
			t.Errorf("%d of %d are due in the first half", first, n)
		}
	})
}

func TestRenewalsReplaceAndForget(t *testing.T) {
	renewalBubble(t, func(r *Renewals, fired func() map[string]time.Duration) {
		now := time.Now()
		r.Note("m", "longer", now, now.Add(10*time.Second))
		r.Note("m", "shorter", now, now.Add(1000*time.Second))
		r.Note("m", "gone", now, now.Add(10*time.Second))
		r.Note("n", "gone", now, now.Add(10*time.Second))
		synctest.Wait()
		r.Note("m", "longer", now, now.Add(1000*time.Second))
		r.Note("m", "shorter", now, now.Add(10*time.Second))
		r.Forget("m", "gone")
		r.Forget("m", "unknown")
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if len(fired()) != 2 || fired()["m/shorter"] < 7*time.Second || fired()["n/gone"] < 7*time.Second {
			t.Errorf("due: %v", fired())
		}
		time.Sleep(792 * time.Second)
		synctest.Wait()
		if len(fired()) != 3 || fired()["m/longer"] < 700*time.Second {
			t.Errorf("due: %v", fired())
		}
		if len(r.by) != 0 || len(r.queue) != 0 {
			t.Error("something is kept of what was due")
		}
	})
}

// TestRenewalsMove: the first entry becomes the last.
func TestRenewalsMove(t *testing.T) {
	renewalBubble(t, func(r *Renewals, fired func() map[string]time.Duration) {
		now := time.Now()
		for i := range 10 {
			r.Note("m", fmt.Sprint(i), now, now.Add(time.Duration(10+2*i)*time.Second))
		}
		r.Note("m", "0", now, now.Add(1000*time.Second))
		time.Sleep(23 * time.Second)
		synctest.Wait()
		if len(fired()) != 9 || fired()["m/1"] > 10*time.Second {
			t.Errorf("due: %v", fired())
		}
	})
}

// TestRenewalsOverdue notes certificates whose renewal is overdue, as after a restart, and
// one whose life is empty.
func TestRenewalsOverdue(t *testing.T) {
	renewalBubble(t, func(r *Renewals, fired func() map[string]time.Duration) {
		now := time.Now()
		r.Note("m", "late", now.Add(-90*time.Second), now.Add(10*time.Second))
		r.Note("m", "empty", now, now)
		time.Sleep(renewalPause)
		synctest.Wait()
		if len(fired()) != 2 || fired()["m/late"] < renewalPause || fired()["m/empty"] < renewalPause {
			t.Errorf("due: %v", fired())
		}
	})
}

// TestRenewalsAgain notes a new certificate inside the call of due.
func TestRenewalsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *Renewals
		var at []time.Time
		r = NewRenewals(func(m, d string) {
			at = append(at, time.Now())
			r.Note(m, d, time.Now(), time.Now().Add(10*time.Second))
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		r.Note("m", "d", time.Now(), time.Now().Add(10*time.Second))
		time.Sleep(24*time.Second + 1)
		synctest.Wait()
		if len(at) != 3 {
			t.Errorf("due at %v", at)
		}
		cancel()
		<-ended
	})
}

// TestRenewalsAfterSleep: renewals that became due while the host slept, or while its clock
// was behind, happen soon afterwards. Timers count only the time that the host was awake. A
// bubble has no monotonic clock; for that see TestRenewalIsDueByTheWallClock.
func TestRenewalsAfterSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		fired := make(chan string, 10)
		r := NewRenewals(func(_, d string) { fired <- d })
		r.now = func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		r.Note("m", "short", r.now(), r.now().Add(24*time.Hour))
		r.Note("m", "long", r.now(), r.now().Add(240*time.Hour))
		synctest.Wait()
		slept.Store(int64(23 * time.Hour))
		time.Sleep(alarm.Slice)
		synctest.Wait()
		if len(fired) != 1 || <-fired != "short" {
			t.Errorf("%d are renewed after the sleep", len(fired))
		}
		slept.Store(int64(239 * time.Hour))
		time.Sleep(alarm.Slice)
		synctest.Wait()
		if len(fired) != 1 {
			t.Errorf("%d are renewed after the second sleep", len(fired))
		}
		cancel()
		<-ended
	})
}
