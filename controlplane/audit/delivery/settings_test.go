package delivery

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TestFormerFailures: what was found out about a former receiver does not count for the new one, be it
// known before or found out later.
func TestFormerFailures(t *testing.T) {
	w := newWorld(t)
	dead := newReceiver(t, slices.Repeat([]int{500}, 100)...)
	alive := newReceiver(t)
	w.hook("p", dead, true)
	w.start()
	want := w.happen("p", 0, 2)
	<-w.held // it has failed as a whole
	alive.silent = make(chan struct{})
	w.hook("p", alive, true)
	<-alive.seen                      // an attempt is under way, and has no result
	w.write(func(tx store.Tx) error { // as of an API, which clears what is known
		return put(tx, cloud.Deliveries, "p", &cloud.Delivery{Destination: "to-" + alive.URL, Cursor: cloud.EventName("p", 0)})
	})
	third := newReceiver(t)
	w.hook("p", third, true)
	close(alive.silent) // a success of who is not asked any more
	until(t, "the rest", func() bool { return w.progress("p").Cursor == cloud.EventName("p", 2) })
	if got := third.events(); len(got) > 0 {
		t.Errorf("%v arrived for the second time", got)
	}
	if d := w.progress("p"); d.Failed || d.Code != 0 || d.AttemptedAt != 0 {
		t.Errorf("%+v", d)
	}
	want = append(want, w.happen("p", 2, 3)...)
	until(t, "the next", func() bool { return slices.Equal(third.events(), want[2:]) })
	until(t, "its status", func() bool { d := w.progress("p"); return d.Code == 200 && d.Destination == "to-"+third.URL })
}

// TestFailureOfAFormerOne: a failure that arrives after the destination was changed says nothing of the
// new one.
func TestFailureOfAFormerOne(t *testing.T) {
	w := newWorld(t)
	first, second := newReceiver(t, 401), newReceiver(t)
	second.silent = make(chan struct{})
	t.Cleanup(func() { close(second.silent) })
	var once sync.Once
	w.hook("p", first, true)
	w.happen("p", 0, 1)
	w.writer = writer(func(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
		if len(first.seen) > 0 { // the answer is there, and not stored yet
			once.Do(func() { w.hook("p", second, true) })
		}
		return w.gate.Write(ctx, class, fn)
	})
	w.start()
	<-second.seen
	if d := w.progress("p"); d.Failed || d.Code != 0 {
		t.Errorf("%+v", d)
	}
}

// writer is a function as a [Writer].
type writer func(context.Context, model.Class, func(store.Tx) error) (store.Commit, error)

func (f writer) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	return f(ctx, class, fn)
}

// wrote reports whether a transaction writes resources of a kind.
func wrote(tx store.Tx, k *model.Kind) bool {
	return slices.ContainsFunc(tx.Changes(), func(c store.Change) bool { return c.New != nil && c.New.Kind == k })
}

// TestEditedDestination: a destination that is edited between two attempts is noticed at once, and so is
// one that is edited in the pause after a failure.
func TestEditedDestination(t *testing.T) {
	for name, failures := range map[string]int{"between two attempts": 1, "in the pause": 5} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.hold = failures == 1
			r, elsewhere := newReceiver(t, slices.Repeat([]int{500}, failures)...), newReceiver(t)
			w.hook("p", r, true)
			w.start()
			want := w.happen("p", 0, 1)
			<-w.held
			w.write(func(tx store.Tx) error {
				id := "to-" + r.URL
				return put(tx, cloud.Destinations, id, &cloud.Destination{Name: id, Endpoint: elsewhere.URL, Authorization: "Basic c2VjcmV0", LogFormat: cloud.FormatJSON})
			})
			until(t, "the event", func() bool { return slices.Equal(elsewhere.events(), want) })
			if n := r.requests(); n != failures {
				t.Errorf("%d requests to where it was before", n)
			}
		})
	}
}

// TestDeletedWhileDelivering: nothing is known of a webhook that was deleted while its receiver had a
// request, and one that is made anew begins with what happens after it.
func TestDeletedWhileDelivering(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	silent := make(chan struct{})
	r.silent = silent
	w.hook("p", r, true)
	w.happen("p", 0, 2) // before the engine looks, so that one request has both
	w.start()
	<-r.seen
	w.happen("p", 2, 3)
	w.write(func(tx store.Tx) error { return Forget(tx, "p") })
	r.mu.Lock()
	r.silent = nil
	r.mu.Unlock()
	close(silent)
	until(t, "the outcome", func() bool { return w.engine.Stats().Delivered == 2 })
	_ = w.s.View(t.Context(), func(r store.Reader) error {
		if n, err := r.Count(cloud.Deliveries, store.Query{}); n != 0 || err != nil {
			t.Errorf("%d deliveries are known, %v", n, err)
		}
		return nil
	})
	w.hook("p", r, true)
	want := w.happen("p", 3, 5)
	until(t, "what happened after it", func() bool { return len(r.events()) >= 2 })
	if got := r.events(); !slices.Equal(got, want) {
		t.Errorf("%v arrived", got)
	}
}

// TestSilentReceiver: a receiver that takes a request and says nothing holds up nobody else, and when the
// engine ends, nothing is said of the request that was broken off.
func TestSilentReceiver(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	r.silent = make(chan struct{})
	defer close(r.silent)
	w.hook("p", r, true)
	others := w.bystander()
	stop := w.start()
	w.happen("p", 0, 1)
	<-r.seen
	others()
	stop()
	if d := w.progress("p"); d.AttemptedAt != 0 || d.Failed || d.Message != "" {
		t.Errorf("%+v", d)
	}
}

// TestStoreFailsAfterASuccess: what the receiver has taken is not sent again because it cannot be stored
// that it was. Nor does an end of the engine at that moment matter.
func TestStoreFailsAfterASuccess(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	var mu sync.Mutex
	failures := 5
	w.writer = writer(func(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
		return w.gate.Write(ctx, class, func(tx store.Tx) error {
			err := fn(tx)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && failures > 0 && wrote(tx, cloud.Deliveries) {
				failures--
				return errors.New("the disk is full")
			}
			return err
		})
	})
	want := w.happen("p", 0, 3)
	w.start()
	until(t, "the progress", func() bool { return w.progress("p").Cursor == cloud.EventName("p", 3) })
	want = append(want, w.happen("p", 3, 4)...)
	until(t, "the next", func() bool { return len(r.events()) == len(want) })
	if got := r.events(); !slices.Equal(got, want) || failures != 0 {
		t.Errorf("%v arrived, %d failures left", got, failures)
	}
	if got := w.waited(); !slices.Equal(got, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}) {
		t.Errorf("the waits are %v", got)
	}
}

// TestEndsAfterASuccess: an engine that is told to end while it stores what a receiver has taken stores
// it.
func TestEndsAfterASuccess(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	stopping := make(chan struct{})
	var once sync.Once
	w.writer = writer(func(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
		return w.gate.Write(ctx, class, func(tx store.Tx) error {
			err := fn(tx)
			if len(r.seen) > 0 && wrote(tx, cloud.Deliveries) { // not any write: that of what r has taken
				once.Do(func() { close(stopping); <-w.ctx.Done() })
			}
			return err
		})
	})
	want := w.happen("p", 0, 3)
	stop := w.start()
	<-stopping
	stop()
	w.writer = w.gate
	w.start()
	want = append(want, w.happen("p", 3, 4)...)
	until(t, "the next", func() bool { return slices.Contains(r.events(), "p-3") })
	if got := r.events(); !slices.Equal(got, want) {
		t.Errorf("%v arrived", got)
	}
}

// TestStatusFails: that the status of an attempt cannot be stored changes nothing for the next.
func TestStatusFails(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t, 500, 500, 500, 500, 500, 500, 500, 500)
	w.hook("p", r, true)
	var mu sync.Mutex
	failures := 4
	w.writer = writer(func(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
		return w.gate.Write(ctx, class, func(tx store.Tx) error {
			err := fn(tx)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && failures > 0 && wrote(tx, cloud.Deliveries) {
				failures--
				return errors.New("the disk is full")
			}
			return err
		})
	})
	w.happen("p", 0, 1)
	w.start()
	<-w.held
	if got := w.waited(); !slices.Equal(got, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, minPause}) || r.requests() != 5 {
		t.Errorf("%d requests, the waits are %v", r.requests(), got)
	}
	if d := w.progress("p"); !d.Failed || d.Code != http.StatusInternalServerError {
		t.Errorf("%+v", d)
	}
}

// TestRetryAfterTheLast: what the receiver says at the last attempt counts for the pause.
func TestRetryAfterTheLast(t *testing.T) {
	for _, tt := range []struct {
		failures int
		said     time.Duration
		want     time.Duration
	}{
		{0, 0, 30 * time.Second}, {1, 0, time.Minute}, {3, 0, 4 * time.Minute}, {4, 0, 5 * time.Minute}, {100, 0, 5 * time.Minute},
		{0, time.Second, 30 * time.Second}, {0, 100 * time.Second, 100 * time.Second}, {0, time.Hour, 5 * time.Minute}, {0, -time.Hour, 30 * time.Second},
	} {
		if got := pauseAfter(tt.failures, tt.said); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
	w := newWorld(t)
	r := newReceiver(t)
	r.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Retry-After", "77")
		rw.WriteHeader(http.StatusServiceUnavailable)
	})
	w.hook("p", r, true)
	w.happen("p", 0, 1)
	w.start()
	for range maxRetries {
		<-w.held
		w.resume()
	}
	<-w.held
	if got := w.waited(); !slices.Equal(got, []time.Duration{maxWait, maxWait, maxWait, maxWait, 77 * time.Second}) {
		t.Errorf("the waits are %v", got)
	}
}

// TestNewDestinationInBackOff: that the former receiver has failed does not count for the new one before
// that one has failed, too.
func TestNewDestinationInBackOff(t *testing.T) {
	w := newWorld(t)
	dead, slow := newReceiver(t, slices.Repeat([]int{500}, 5)...), newReceiver(t, 503)
	w.hook("p", dead, true)
	w.start()
	w.happen("p", 0, 1)
	<-w.held
	w.mu.Lock()
	w.hold = true
	w.mu.Unlock()
	w.hook("p", slow, true)
	<-w.held
	if d := w.progress("p"); d.Failed || d.Code != http.StatusServiceUnavailable || d.Destination != "to-"+slow.URL {
		t.Errorf("%+v", d)
	}
}
