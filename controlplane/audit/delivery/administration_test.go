package delivery

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/audit/syslog"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/store"
)

const own = cloud.ControlPlaneLog

// administered makes an event of the control plane itself, in the transaction of fn.
func (w *world) administered(id string, fn func(store.Tx) error) string {
	w.t.Helper()
	w.write(func(tx store.Tx) error {
		if fn != nil {
			if err := fn(tx); err != nil {
				return err
			}
		}
		return PutAdministration(tx, func() ([]audit.Event, error) {
			return []audit.Event{{ID: id, Time: w.time(), Administration: &audit.Administration{Class: audit.Change, Action: "updated"}}}, nil
		})
	})
	return id
}

// turns switches the log of the control plane on or off.
func (w *world) turns(to *receiver, on bool) func(store.Tx) error {
	return func(tx store.Tx) error {
		return Lead(tx, own, cloud.Webhook{Enabled: on, Destination: "to-" + to.URL})
	}
}

// TestOwnLogIsSwitchedOff: what there is when the log is switched off, and that it is, reaches a receiver
// that is away at that time; nothing is kept afterwards, replayed or delivered, until it is on again.
func TestOwnLogIsSwitchedOff(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t, slices.Repeat([]int{500}, 5)...)
	w.hook("p", r, false) // which makes the destination
	want := []string{w.administered("on", w.turns(r, true)), w.administered("a", nil), w.administered("off", w.turns(r, false))}
	w.administered("unseen", nil)
	w.administered("unseen-too", w.turns(r, false))
	if n := len(w.kept(own)); n != 3 {
		t.Fatalf("%d are kept", n)
	}
	w.again(own, w.time().Add(-time.Hour), w.time().Add(time.Hour))
	w.start()
	<-w.held // it has failed as a whole
	w.resume()
	until(t, "the last event", func() bool { return slices.Equal(r.events(), want) })
	until(t, "its end", func() bool { return w.progress(own).Cursor == w.progress(own).Final })
	if job := w.job(own); job.Status != cloud.ReplayAccepted || job.Cursor != "" {
		t.Errorf("%+v", job)
	}
	want = slices.Concat(want, []string{w.administered("on-again", w.turns(r, true))}, want)
	until(t, "what it was, and the replay of it", func() bool { return slices.Equal(r.events(), want) })
	if w.engine.Stats().Expired+w.engine.Stats().Crowded != 0 {
		t.Errorf("%+v", w.engine.Stats())
	}
}

// TestOwnLogAndSyslog: sinks get the log of the control plane only if they are told to, from then on, and
// what happens while its webhook is off is for them alone.
func TestOwnLogAndSyslog(t *testing.T) {
	w := newWorld(t)
	c, r := newCollector(t, "127.0.0.1:0"), newReceiver(t)
	w.sinks = []syslog.Target{{Network: "tcp", Address: c.Addr().String()}}
	w.hook("p", r, false)
	stop := w.start()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	w.administered("unseen", nil)
	hooked := []string{w.administered("on", w.turns(r, true)), w.administered("a", nil)}
	synced := w.happen("p", 0, 1)
	until(t, "a login", func() bool { return slices.Equal(c.events(), synced) })
	until(t, "the webhook", func() bool { return slices.Equal(r.events(), hooked) })
	until(t, "what is known of it", func() bool { return w.progress(own).Cursor == cloud.EventName(own, 2) })
	stop()
	w.own = true
	w.start()
	until(t, "the setting", func() bool { return w.sinksTake(own) })
	off := w.administered("off", w.turns(r, false))
	synced, hooked = append(synced, off), append(hooked, off)
	until(t, "the last of the webhook", func() bool { return slices.Equal(r.events(), hooked) })
	until(t, "what is known of that", func() bool { return w.progress(own).Cursor == w.progress(own).Final })
	for i := range 3 {
		synced = append(synced, w.administered(fmt.Sprint("b", i), nil))
	}
	on := w.administered("on-again", w.turns(r, true))
	synced, hooked = append(synced, on), append(hooked, on)
	until(t, "all of syslog", func() bool { return len(c.events()) >= len(synced) })
	if got := c.events(); !slices.Equal(got, synced) {
		t.Errorf("%v, want %v", got, synced)
	}
	until(t, "all of the webhook", func() bool { return slices.Equal(r.events(), hooked) })
}

// TestOwnLogIsOffWhileReceiverIsAway: what happens while the webhook is off is for sinks alone, also if the
// receiver has not got yet what there was before, however often that happens, and none of it is replayed.
// A last event that the receiver refuses is given up for what comes after all that.
func TestOwnLogIsOffWhileReceiverIsAway(t *testing.T) {
	for name, refuses := range map[string]bool{"away": false, "refusing": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c, r := newCollector(t, "127.0.0.1:0"), newReceiver(t)
			w.sinks, w.own = []syslog.Target{{Network: "tcp", Address: c.Addr().String()}}, true
			w.hook("p", r, false) // which makes the destination
			stop := w.start()
			until(t, "the setting", func() bool { return w.sinksTake(own) })
			hooked := []string{w.administered("on", w.turns(r, true))}
			synced := slices.Clone(hooked)
			until(t, "what is known of it", func() bool { return w.progress(own).Cursor == cloud.EventName(own, 1) })
			until(t, "the sink", func() bool { return slices.Equal(c.events(), synced) && w.sent(c, own) == 1 })
			stop()
			for i := range 2 {
				off := w.administered(fmt.Sprint("off", i), w.turns(r, false))
				hooked, synced = append(hooked, off), append(synced, off)
				for n := range 3 * page / 2 {
					synced = append(synced, w.administered(fmt.Sprintf("unseen%d-%d", i, n), nil))
				}
				on := w.administered(fmt.Sprint("on", i), w.turns(r, true))
				hooked, synced = append(hooked, on), append(synced, on)
			}
			if refuses {
				r.refuses = map[string]bool{"off0": true}
				hooked = without(hooked, "off0")
			} else {
				r.answers = slices.Repeat([]int{500}, 5)
			}
			w.start()
			if !refuses {
				<-w.held // it has failed as a whole
				w.resume()
			}
			until(t, "all of the webhook", func() bool { return w.progress(own).Cursor == cloud.EventName(own, uint64(len(synced))) })
			if got := r.events(); !slices.Equal(got, hooked) {
				t.Errorf("the webhook has %v, want %v", got, hooked)
			}
			until(t, "all of syslog", func() bool { return len(c.events()) >= len(synced) })
			if got := c.events(); !slices.Equal(got, synced) {
				t.Errorf("sinks have %v, want %v", got, synced)
			}
			given := uint64(0)
			if refuses {
				given = 1
			}
			if s := w.engine.Stats(); s.Unreadable+s.Expired+s.Crowded != 0 || s.GivenUp != given {
				t.Errorf("%+v", s)
			}
			w.again(own, w.time().Add(-time.Hour), w.time().Add(time.Hour))
			until(t, "the replay", func() bool { return w.job(own).Status == cloud.ReplayCompleted })
			if got := r.events()[len(hooked):]; !slices.Equal(got, hooked) {
				t.Errorf("replayed are %v, want %v", got, hooked)
			}
		})
	}
}

// sent is up to which event of a portal a collector has got all.
func (w *world) sent(c *collector, portal string) (done uint64) {
	to := syslog.Target{Network: "tcp", Address: c.Addr().String()}
	_ = w.s.View(w.t.Context(), func(r store.Reader) error {
		p, err := r.Get(cloud.SinkPositions, scopeOf(to.String()), portal)
		if err == nil {
			done = p.Spec.(*cloud.SinkPosition).Done
		}
		return err
	})
	return done
}

// sinksTake reports whether sinks get the events of a portal.
func (w *world) sinksTake(portal string) (is bool) {
	_ = w.s.View(w.t.Context(), func(r store.Reader) error {
		s, err := sinksOf(r)
		is = s.Take(portal)
		return err
	})
	return is
}
