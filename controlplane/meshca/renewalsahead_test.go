package meshca

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/xds/alarm"
)

// TestRenewalOfClockThatWasAhead: a certificate that was issued while the clock was ahead is
// not valid yet once the clock is right again. It is replaced within a minute, and one that
// is valid is not.
func TestRenewalOfClockThatWasAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		due := map[string]bool{}
		r := NewRenewals(func(_, dataplane string) { due[dataplane] = true })
		r.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		ended := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { defer close(ended); _ = r.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		r.Note("m", "before", r.now(), r.now().Add(30*24*time.Hour))
		ahead.Store(int64(48 * time.Hour))
		r.Note("m", "ahead", r.now(), r.now().Add(WorkloadLife))
		ahead.Store(int64(2 * identity.Backdate))
		r.Note("m", "a little", r.now(), r.now().Add(WorkloadLife))
		ahead.Store(int64(identity.Backdate))
		time.Sleep(alarm.Slice)
		synctest.Wait()
		if len(due) != 1 || !due["ahead"] {
			t.Errorf("due are %v", due)
		}
		if !r.Noted("m", "before") || !r.Noted("m", "a little") {
			t.Error("a certificate that is valid is forgotten")
		}
	})
}
