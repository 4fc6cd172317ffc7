package meshca

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestRenewalsOfMeshesTakeTurnsApart: a renewal that waits, for example for the plan of its
// mesh, delays only its own mesh. A renewal that is noted anew or forgotten while it waits
// for its turn is no longer due.
func TestRenewalsOfMeshesTakeTurnsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		called := make(chan string, 10)
		r := NewRenewals(func(m, d string) {
			called <- m + "/" + d
			if d == "stuck" {
				<-open
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		took := func(want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for len(called) > 0 {
				got = append(got, <-called)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("called: %v, not %v", got, want)
			}
		}
		overdue := func(m, d string) {
			r.Note(m, d, time.Now(), time.Now())
			time.Sleep(renewalPause)
			synctest.Wait()
		}
		overdue("m", "stuck")
		for _, d := range []string{"waits", "gone", "renewed"} {
			overdue("m", d)
		}
		overdue("n", "a")
		took("m/stuck", "n/a")
		if !r.Noted("m", "waits") || r.Noted("n", "a") {
			t.Error("what waits for its turn is not noted, or what was called is")
		}
		r.Forget("m", "gone")
		r.Note("m", "renewed", time.Now(), time.Now().Add(1000*time.Second))
		close(open)
		took("m/waits")
		time.Sleep(800 * time.Second)
		took("m/renewed")
		if len(r.by)+len(r.queue)+len(r.turns) != 0 {
			t.Error("something is kept of what was due")
		}
		cancel()
		<-ended
	})
}
