package delivery

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/audit/syslog"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// onDisk is a world whose rows can be made unreadable.
func onDisk(t *testing.T) (w *world, spoilt func(kind *model.Kind, name string)) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	w = blankWorld(t)
	w.open(sqlite(t, path, w.time))
	return w, func(kind *model.Kind, name string) {
		t.Helper()
		_ = w.s.Close()
		db, err := sql.Open("sqlite", "file:"+path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		res, err := db.ExecContext(t.Context(), `UPDATE resources SET spec = x'00' WHERE kind = ? AND name = ?`, kind.Name, name)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := res.RowsAffected(); n < 1 || err != nil {
			t.Fatalf("%d rows of %s, %v", n, kind.Name, err)
		}
		w.open(sqlite(t, path, w.time))
	}
}

// lines are what a log says.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// count is how often a text was said.
func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

const anew = "a row of an audit log cannot be read"

// once drops what is there a second time.
func once(ids []string) (out []string) {
	for _, id := range ids {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// TestSpoiltPosition: with a position that cannot be read changes and logins go on, the log can be switched
// off, and its receiver gets all of it, also if no event is left of which the next number could be told.
func TestSpoiltPosition(t *testing.T) {
	for name, ended := range map[string]bool{"events are there": false, "events have ended": true} {
		t.Run(name, func(t *testing.T) {
			w, spoilt := onDisk(t)
			said := &lines{}
			w.log = slog.New(slog.NewTextHandler(said, nil))
			r := newReceiver(t)
			w.hook("p", r, true)
			stop := w.start()
			want := []string{w.administered("on", w.turns(r, true)), w.administered("a", nil)}
			want = append(want, w.happen("p", 0, 2)...)
			reached := func(portal string, n uint64) {
				t.Helper()
				until(t, portal, func() bool { return w.progress(portal).Cursor == cloud.EventName(portal, n) })
			}
			reached(own, 2)
			reached("p", 2)
			stop()
			if ended {
				w.pass(cloud.KeptEvents + time.Hour)
				stop = w.start()
				until(t, "the removal", func() bool { return len(w.kept(own))+len(w.kept("p")) == 0 })
				stop()
			}
			spoilt(cloud.Positions, own)
			spoilt(cloud.Positions, "p")
			w.start()
			want = append(want, w.happen("p", 2, 3)...)
			reached("p", 3)
			want = append(want, w.administered("b", nil), w.administered("off", w.turns(r, false)))
			reached(own, 4)
			if got := r.events(); len(got) != len(want) || len(without(want, got...)) > 0 {
				t.Errorf("%v arrived, want %v", got, want)
			}
			if w.administered("unseen", nil); w.progress(own).Final != cloud.EventName(own, 4) {
				t.Errorf("%+v", w.progress(own))
			}
			until(t, "the log", func() bool { return said.count(anew) == 2 })
			if s := w.engine.Stats(); s.Expired+s.Crowded+s.Unreadable != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestSpoiltDelivery: a delivery that cannot be read begins again with the first event that is there, whether
// something happens or not.
func TestSpoiltDelivery(t *testing.T) {
	w, spoilt := onDisk(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	stop := w.start()
	want := append(w.happen("p", 0, 2), w.administered("on", w.turns(r, true)))
	until(t, "the first", func() bool { return len(r.events()) == 3 })
	stop()
	spoilt(cloud.Deliveries, "p")
	spoilt(cloud.Deliveries, own)
	want = append(want, w.administered("off", w.turns(r, false)))
	said := &lines{}
	w.log = slog.New(slog.NewTextHandler(said, nil))
	stop = w.start()
	until(t, "all once more", func() bool {
		return w.progress(own).Cursor == cloud.EventName(own, 2) && w.progress("p").Cursor == cloud.EventName("p", 2)
	})
	if got := r.events(); len(got) != len(want)+3 || len(without(want, got...)) > 0 {
		t.Errorf("%v arrived", got)
	}
	until(t, "the log", func() bool { return said.count(anew) == 1 }) // the other was made anew by the change
	if said.count("cannot be delivered") != 0 {
		t.Errorf("the log: %s", said.buf.String())
	}
	stop()
	spoilt(cloud.Deliveries, "p")
	w.happen("p", 2, 3)
	w.start()
	until(t, "what happens", func() bool { return w.progress("p").Cursor == cloud.EventName("p", 3) })
}

// TestSpoiltDeliveryOfALogThatIsOff: if it cannot be read how far the webhook is that was switched off, it gets
// its end once more, and nothing of what is for sinks alone.
func TestSpoiltDeliveryOfALogThatIsOff(t *testing.T) {
	w, spoilt := onDisk(t)
	c, r := newCollector(t, "127.0.0.1:0"), newReceiver(t)
	w.sinks, w.own = []syslog.Target{{Network: "tcp", Address: c.Addr().String()}}, true
	w.hook("p", r, false)
	stop := w.start()
	until(t, "the setting", func() bool { return w.sinksTake(own) })
	hooked := []string{w.administered("on", w.turns(r, true)), w.administered("off", w.turns(r, false))}
	synced := append(slices.Clone(hooked), w.administered("b", nil))
	until(t, "the webhook", func() bool { return w.progress(own).Cursor >= w.progress(own).Final })
	until(t, "syslog", func() bool { return w.sent(c, own) == 3 && len(c.events()) == 3 })
	stop() // the next engine has another connection, on which nothing may overtake these
	spoilt(cloud.Deliveries, own)
	synced = append(synced, w.administered("c", nil))
	w.start()
	until(t, "the webhook once more", func() bool { return w.progress(own).Cursor >= cloud.EventName(own, 4) })
	if got := r.events(); !slices.Equal(got, append(hooked, hooked...)) {
		t.Errorf("the webhook has %v", got)
	}
	until(t, "syslog", func() bool { return slices.Equal(c.events(), synced) })
}

// TestSpoiltSinks: with sinks that cannot be read everything is kept for them, and nothing else is refused or
// ends. A position of a sink that cannot be read begins again.
func TestSpoiltSinks(t *testing.T) {
	w, spoilt := onDisk(t)
	c := newCollector(t, "127.0.0.1:0")
	w.sinks, w.own = []syslog.Target{{Network: "tcp", Address: c.Addr().String()}}, true
	stop := w.start()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	want := w.happen("p", 0, 2)
	until(t, "the first", func() bool { return w.sent(c, "p") == 2 })
	stop()
	spoilt(cloud.AllSinks, cloud.SyslogSinks)
	want = append(append(want, w.happen("p", 2, 3)...), w.administered("a", nil))
	stop = w.start()
	until(t, "the rest", func() bool { return w.sent(c, "p") == 3 && w.sent(c, own) == 1 && len(c.events()) >= 4 })
	if got := c.events(); len(got) != 4 || len(without(want, got...)) > 0 {
		t.Errorf("%v arrived, want %v", got, want)
	}
	stop()
	spoilt(cloud.SinkPositions, "p")
	want = append(want, w.happen("p", 3, 4)...)
	said := &lines{}
	w.log = slog.New(slog.NewTextHandler(said, nil))
	w.start()
	until(t, "all once more", func() bool { return w.sent(c, "p") == 4 && len(c.events()) >= 4+4 })
	if got := c.events(); len(got) != 4+4 || len(without(want, once(got)...)) > 0 {
		t.Errorf("%v arrived, want %v", got, want)
	}
	until(t, "the log", func() bool { return said.count(anew) == 1 })
	if said.count("are lost") != 0 {
		t.Errorf("the log: %s", said.buf.String())
	}
}

// TestSpoiltWebhook: what happens while a webhook cannot be read waits for it to be made anew.
func TestSpoiltWebhook(t *testing.T) {
	w, spoilt := onDisk(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	w.administered("on", w.turns(r, true))
	spoilt(cloud.Webhooks, "p")
	spoilt(cloud.Webhooks, own)
	want := append(w.happen("p", 0, 2), "on", w.administered("a", nil), w.administered("off", w.turns(r, false)))
	w.write(func(tx store.Tx) error {
		return Lead(tx, "p", cloud.Webhook{Enabled: true, Destination: "to-" + r.URL})
	})
	w.start()
	until(t, "all", func() bool { return len(r.events()) >= len(want) })
	if got := r.events(); len(got) != len(want) || len(without(want, got...)) > 0 {
		t.Errorf("%v arrived, want %v", got, want)
	}
}

// TestSpoiltReplay: a replay job that cannot be read ends, and holds up nothing.
func TestSpoiltReplay(t *testing.T) {
	w, spoilt := onDisk(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	want := w.happen("p", 0, 2)
	w.again("p", w.time().Add(-time.Hour), w.time().Add(time.Hour))
	spoilt(cloud.Replays, "p")
	w.start()
	until(t, "what waits", func() bool { return slices.Equal(r.events(), want) })
	w.again("p", w.time().Add(-time.Hour), w.time().Add(time.Hour))
	until(t, "the next job", func() bool { return w.job("p").Status == cloud.ReplayCompleted })
}

// TestSinksAreStoredLater: a disk that is full while the sinks are stored ends nothing: webhooks are served, and
// the sinks when there is room.
func TestSinksAreStoredLater(t *testing.T) {
	w := newWorld(t)
	c, r := newCollector(t, "127.0.0.1:0"), newReceiver(t)
	w.hook("p", r, true)
	w.sinks = []syslog.Target{{Network: "tcp", Address: c.Addr().String()}}
	said, full := &lines{}, make(chan struct{})
	w.log = slog.New(slog.NewTextHandler(said, nil))
	inner := w.writer
	w.writer = writer(func(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
		if class == model.Config { // only the sinks
			select {
			case <-full:
			default:
				return store.Commit{}, errors.New("the disk is full")
			}
		}
		return inner.Write(ctx, class, fn)
	})
	w.start()
	want := w.happen("p", 0, 2)
	until(t, "the webhook", func() bool { return slices.Equal(r.events(), want) })
	<-w.held // it was tried until the waits are long
	close(full)
	w.resume()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	want = w.happen("p", 2, 3)
	until(t, "syslog", func() bool { return slices.Equal(c.events(), want) })
	if n := said.count("are not stored"); n != 1 {
		t.Errorf("it was said %d times", n)
	}
}

// TestSpoiltRowsRefuseNothing: whichever of its rows cannot be read, the log can be kept, removed and purged.
func TestSpoiltRowsRefuseNothing(t *testing.T) {
	for _, kind := range []*model.Kind{cloud.Positions, cloud.Deliveries, cloud.Webhooks, cloud.AllSinks, cloud.SinkPositions} {
		t.Run(kind.Name, func(t *testing.T) {
			w, spoilt := onDisk(t)
			r, c := newReceiver(t), newCollector(t, "127.0.0.1:0")
			w.hook("p", r, false)
			w.sinks = []syslog.Target{{Network: "tcp", Address: c.Addr().String()}}
			stop := w.start()
			until(t, "the sinks", func() bool { return w.registered() == 1 })
			w.happen("p", 0, 1)
			until(t, "syslog", func() bool { return w.sent(c, "p") == 1 })
			stop()
			name := "p"
			if kind == cloud.AllSinks {
				name = cloud.SyslogSinks
			}
			spoilt(kind, name)
			w.write(func(tx store.Tx) error {
				if _, err := Keeps(tx); err != nil {
					return err
				}
				return Put(tx, audit.Event{ID: "x", Portal: "p"})
			})
			spoilt(kind, name)
			w.write(func(tx store.Tx) error { return Forget(tx, "p") })
			w.write(func(tx store.Tx) error { _, err := Purge(tx, "p", 10); return err })
			if n := len(w.kept("p")); n != 0 {
				t.Errorf("%d events are left", n)
			}
		})
	}
}

// TestSpoiltPositionOfWhatHasEnded: if it cannot be read how far a log is of which all has ended, what is removed
// counts as lost, and what happens after it is delivered.
func TestSpoiltPositionOfWhatHasEnded(t *testing.T) {
	w, spoilt := onDisk(t)
	r := newReceiver(t)
	w.hook("p", r, false)
	w.happen("p", 0, 4)
	w.pass(cloud.KeptEvents + time.Hour)
	spoilt(cloud.Positions, "p")
	w.start()
	w.hour()
	until(t, "the removal", func() bool { return len(w.kept("p")) == 0 })
	until(t, "the loss", func() bool { return w.engine.Stats().Expired == 4 })
	if p := w.position("p"); p.Last != 4 || p.First != 5 {
		t.Errorf("%+v", p)
	}
	want := w.happen("p", 4, 6)
	w.write(func(tx store.Tx) error {
		return Lead(tx, "p", cloud.Webhook{Enabled: true, Destination: "to-" + r.URL})
	})
	until(t, "what happens", func() bool { return w.progress("p").Cursor == cloud.EventName("p", 6) })
	if got := r.events(); !slices.Equal(got, want) {
		t.Errorf("%v arrived, want %v", got, want)
	}
}

// TestSpoiltPositionOfAWebhookThatIsOff: how far the log is of a webhook that is off is made anew though nobody
// delivers it and nothing has ended.
func TestSpoiltPositionOfAWebhookThatIsOff(t *testing.T) {
	w, spoilt := onDisk(t)
	w.hook("p", newReceiver(t), false)
	w.happen("p", 0, 3)
	spoilt(cloud.Positions, "p")
	w.start()
	until(t, "the position", func() bool { return w.position("p") == cloud.Position{Last: 3, First: 1} })
}

// TestPositionBelowWhatHasEnded: a position that says less than the events that have ended is raised: numbers that
// were passed are given to no later event.
func TestPositionBelowWhatHasEnded(t *testing.T) {
	w := newWorld(t)
	w.hook("p", newReceiver(t), false)
	w.happen("p", 0, 3)
	w.write(func(tx store.Tx) error { return put(tx, cloud.Positions, "p", &cloud.Position{Last: 1, First: 1}) })
	w.pass(cloud.KeptEvents + time.Hour)
	w.start()
	w.hour()
	until(t, "the removal", func() bool { return len(w.kept("p")) == 0 })
	if p := w.position("p"); p.Last != 3 || p.First != 4 {
		t.Errorf("%+v", p)
	}
}

// position is what counts the events of a portal; nothing if it cannot be read.
func (w *world) position(portal string) (p cloud.Position) {
	_ = w.s.View(w.t.Context(), func(r store.Reader) (err error) {
		p, err = positionOf(r, portal)
		return err
	})
	return p
}

// TestSpoiltPositionAndSinks: if it can be read neither how far a log is nor which sinks there are, and all its
// events have ended, sinks get what happens next: its numbers are above what they have got. Nothing is left of a
// portal that is removed then.
func TestSpoiltPositionAndSinks(t *testing.T) {
	for name, marks := range map[string]bool{"the list": false, "the list and the sink": true} {
		t.Run(name, func(t *testing.T) {
			w, spoilt := onDisk(t)
			c := newCollector(t, "127.0.0.1:0")
			w.sinks = []syslog.Target{{Network: "tcp", Address: c.Addr().String()}}
			stop := w.start()
			until(t, "the sinks", func() bool { return w.registered() == 1 })
			w.write(func(tx store.Tx) error { return put(tx, cloud.Portals, "p", &cloud.Portal{Name: "p"}) })
			want := w.happen("p", 0, 3)
			w.happen("gone", 0, 2)
			until(t, "the first", func() bool { return w.sent(c, "p") == 3 && w.sent(c, "gone") == 2 && len(c.events()) == 5 })
			stop() // the next engine has another connection, on which nothing may overtake these
			w.pass(cloud.KeptEvents + time.Hour)
			stop = w.start()
			until(t, "the removal", func() bool { return len(w.kept("p")) == 0 })
			stop()
			spoilt(cloud.Positions, "p")
			spoilt(cloud.AllSinks, cloud.SyslogSinks)
			if marks {
				spoilt(cloud.SinkPositions, scopeOf(w.sinks[0].String()))
			}
			want = append(want, w.happen("p", 3, 5)...)
			w.write(func(tx store.Tx) error { _, err := Purge(tx, "gone", 10); return err })
			if n := w.sent(c, "gone"); n != 0 {
				t.Errorf("a position is left: %d", n)
			}
			w.start()
			until(t, "the next", func() bool { return w.sent(c, "p") == 5 && slices.Contains(c.events(), "p-4") })
			if got := without(c.events(), "gone-0", "gone-1"); !slices.Equal(got, want) {
				t.Errorf("%v arrived, want %v", got, want)
			}
		})
	}
}

// TestSpoiltSinksOfBefore: a sink that is no longer in the settings is forgotten, also if the list of the sinks
// cannot be read.
func TestSpoiltSinksOfBefore(t *testing.T) {
	w, spoilt := onDisk(t)
	c, other := newCollector(t, "127.0.0.1:0"), newCollector(t, "127.0.0.1:0")
	w.sinks = []syslog.Target{{Network: "tcp", Address: c.Addr().String()}}
	stop := w.start()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	w.happen("p", 0, 1)
	until(t, "the first", func() bool { return w.sent(c, "p") == 1 })
	stop()
	spoilt(cloud.AllSinks, cloud.SyslogSinks)
	w.sinks = []syslog.Target{{Network: "tcp", Address: other.Addr().String()}}
	w.start()
	until(t, "the other", func() bool { return w.sent(other, "p") == 1 })
	var scopes []string
	err := w.s.View(t.Context(), func(r store.Reader) (err error) {
		scopes, err = scopesOfSinks(r)
		return err
	})
	if err != nil || !slices.Equal(scopes, []string{scopeOf(w.sinks[0].String())}) || w.sent(c, "p") != 0 {
		t.Errorf("%v, %v, and the sink of before has %d", scopes, err, w.sent(c, "p"))
	}
}
