package assembly

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
)

// TestOutliving: what hears of refused calls ends after the last server, whose requests end after the control plane
// was told to.
func TestOutliving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var serving sync.WaitGroup
		serving.Add(1)
		ctx, stop := context.WithCancel(t.Context())
		longer, cancel := outliving(ctx, serving.Wait)
		defer cancel()
		stop()
		synctest.Wait()
		if longer.Err() != nil {
			t.Error("it ends before the last server")
		}
		serving.Done()
		synctest.Wait()
		if longer.Err() == nil {
			t.Error("it does not end with the last server")
		}
	})
}
