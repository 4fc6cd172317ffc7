package delivery

import (
	"slices"
	"testing"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/store"
)

// asks are the ways to have the receiver of the portal p tried at once.
func (w *world) asks(r *receiver) map[string]func(tx store.Tx) error {
	return map[string]func(tx store.Tx) error{
		"a test": func(tx store.Tx) error {
			return Put(tx, audit.Event{ID: "p-2", Portal: "p", Outcome: audit.Test, Method: audit.Unknown})
		},
		"the same webhook": func(tx store.Tx) error { return Retry(tx, "p") },
		"the same destination": func(tx store.Tx) error {
			id := "to-" + r.URL
			return put(tx, cloud.Destinations, id, &cloud.Destination{Name: id, Endpoint: r.URL, Authorization: "Basic c2VjcmV0", LogFormat: cloud.FormatJSON})
		},
	}
}

// TestAskedInThePause: a test, and a change of the webhook or its destination that leaves them as they are, end
// the pause after a failure. A change of another destination does not.
func TestAskedInThePause(t *testing.T) {
	for _, name := range []string{"a test", "the same webhook", "the same destination"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := newReceiver(t, slices.Repeat([]int{500}, 5)...)
			w.hook("p", r, true)
			others := w.bystander()
			w.start()
			want := w.happen("p", 0, 2)
			<-w.held
			if _, err := w.engine.wakeAll(t.Context(), "another"); err != nil {
				t.Fatal(err)
			}
			others()
			if n := r.requests(); n != 5 {
				t.Errorf("%d requests in the pause", n)
			}
			w.write(w.asks(r)[name])
			if name == "a test" {
				want = append(want, "p-2")
			}
			until(t, "all events", func() bool { return slices.Equal(r.events(), want) })
		})
	}
}

// TestAskedDuringTheAttempts: who asks while a delivery is under way does not wait for the pause after it: the
// attempts may have ended before the receiver was repaired.
func TestAskedDuringTheAttempts(t *testing.T) {
	w := newWorld(t)
	w.hold = true
	r := newReceiver(t, slices.Repeat([]int{500}, 5)...)
	w.hook("p", r, true)
	w.start()
	want := append(w.happen("p", 0, 1), "p-2")
	<-w.held
	w.write(w.asks(r)["a test"])
	<-w.held // it goes on with the wait
	w.resume()
	until(t, "all events", func() bool {
		select {
		case <-w.held:
			if last := w.waited(); last[len(last)-1] >= minPause {
				t.Fatal("it is left alone")
			}
			w.resume()
		default:
		}
		return slices.Equal(r.events(), want)
	})
}
