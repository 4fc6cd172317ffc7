package delivery

import (
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// promised is how long after the commit of an event its request begins at most.
const promised = 250 * time.Millisecond

// TestDelay: from the commit of an event to the request with it passes no more time than is promised, whether a
// worker waits for it or one has to be made that takes the lease.
func TestDelay(t *testing.T) {
	if Window > promised {
		t.Errorf("a batch waits for %v", Window)
	}
	r := newReceiver(t) // outside, so that time goes on while it waits for requests
	r.Config.SetKeepAlivesEnabled(false)
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var connected []time.Time
		w := blankWorld(t)
		w.natural = true
		w.connects = func(netip.AddrPort) bool {
			mu.Lock()
			defer mu.Unlock()
			connected = append(connected, time.Now())
			return false
		}
		w.open(memstore.Open(memstore.Options{Now: w.time}))
		w.hook("p", r, true)
		w.start()
		worker := func() bool {
			w.engine.mu.Lock()
			defer w.engine.mu.Unlock()
			return w.engine.busy["p"] != nil
		}
		var want []string
		for i, test := range []struct {
			what  string
			after time.Duration
			waits bool
		}{{"the first event", 2 * linger, false}, {"an idle worker", linger / 3, true}, {"another idle worker", 1234 * time.Millisecond, true}, {"a worker that has left", 2 * linger, false}} {
			time.Sleep(test.after)
			if worker() != test.waits {
				t.Fatalf("%s: a worker is there: %v", test.what, !test.waits)
			}
			want = append(want, w.happen("p", i, i+1)...)
			committed := time.Now()
			until(t, test.what, func() bool { return len(r.events()) > i })
			mu.Lock()
			if delay := connected[len(connected)-1].Sub(committed); len(connected) != i+1 || delay > promised {
				t.Errorf("%s: the %dth request came after %v", test.what, len(connected), delay)
			}
			mu.Unlock()
		}
		if got := r.events(); !slices.Equal(got, want) {
			t.Errorf("%v arrived", got)
		}
	})
}
