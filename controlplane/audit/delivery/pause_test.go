package delivery

import (
	"slices"
	"testing"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/store"
)

// test puts a test event for the portal p.
func test(tx store.Tx) error {
	return Put(tx, audit.Event{ID: "p-2", Portal: "p", Outcome: audit.Test, Method: audit.Unknown})
}

// TestPauseEnds: a test, and a change of what deliveries use, end the pause after a failure at once, after
// however many failures. Whatever else is written does not: an editor that writes in a loop what is there would
// have a receiver that is down tried without a pause.
func TestPauseEnds(t *testing.T) {
	for name, change := range map[string]func(*cloud.Webhook, *cloud.Destination){
		"a test":        nil,
		"off":           func(hook *cloud.Webhook, _ *cloud.Destination) { hook.Enabled = false },
		"an endpoint":   func(_ *cloud.Webhook, to *cloud.Destination) { to.Endpoint += "/other" },
		"a format":      func(_ *cloud.Webhook, to *cloud.Destination) { to.LogFormat = cloud.FormatCEF },
		"a credential":  func(_ *cloud.Webhook, to *cloud.Destination) { to.Authorization = "Basic b3RoZXI=" },
		"a certificate": func(_ *cloud.Webhook, to *cloud.Destination) { to.SkipSSLVerification = true },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := newReceiver(t, slices.Repeat([]int{500}, 100)...)
			w.hook("p", r, true)
			w.start()
			w.happen("p", 0, 2)
			<-w.held
			id := "to-" + r.URL
			hook := cloud.Webhook{Enabled: true, Destination: id}
			to := cloud.Destination{Name: id, Endpoint: r.URL, Authorization: "Basic c2VjcmV0", LogFormat: cloud.FormatJSON}
			for range 3 {
				for _, called := range []string{id, "another", id} { // each is written, and heard of
					to.Name = called
					w.write(func(tx store.Tx) error { return put(tx, cloud.Destinations, id, &to) })
					<-w.held // it goes on with the pause
				}
				w.write(func(tx store.Tx) error { return put(tx, cloud.Webhooks, "p", &hook) })
				<-w.held
			}
			if n := r.requests(); n != 5 {
				t.Fatalf("%d requests in the pause", n)
			}
			for len(w.lingers) > 0 { // of before the first event
				<-w.lingers
			}
			w.write(func(tx store.Tx) error {
				if change == nil {
					return test(tx)
				}
				change(&hook, &to)
				if err := put(tx, cloud.Destinations, id, &to); err != nil {
					return err
				}
				return put(tx, cloud.Webhooks, "p", &hook)
			})
			if !hook.Enabled { // nobody is asked while it is off
				<-w.lingers
				hook.Enabled = true
				w.write(func(tx store.Tx) error { return put(tx, cloud.Webhooks, "p", &hook) })
			}
			until(t, "the next attempt", func() bool { return r.requests() > 5 })
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
	w.write(test)
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
