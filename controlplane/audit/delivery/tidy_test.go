package delivery

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit/syslog"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/lease"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/steady"
	"github.com/meshgate/meshgate/controlplane/store"
)

// old is long enough for all events to have ended.
const old = cloud.KeptEvents + 24*time.Hour

// TestOldEventsAreDelivered: what is older than seven days when a process starts, because its clock is ahead or the
// process before ended long ago, is delivered to receivers that are there.
func TestOldEventsAreDelivered(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	want := w.happen("p", 0, 3)
	w.pass(old)
	r.answers = slices.Repeat([]int{http.StatusServiceUnavailable}, 5) // so that the tidying is first
	w.start()
	<-w.held
	<-w.rests
	if n := len(w.kept("p")); n != 3 {
		t.Fatalf("%d events are left", n)
	}
	w.resume()
	until(t, "the webhook", func() bool { return slices.Equal(r.events(), want) })
	if s := w.engine.Stats(); s.Expired != 0 {
		t.Errorf("%+v", s)
	}
}

// TestOldEventsEnd: old events that a receiver does not take end when the process has run for an hour, and not before
// it was tried.
func TestOldEventsEnd(t *testing.T) {
	w := newWorld(t)
	dead, slow := newReceiver(t), newReceiver(t)
	slow.silent = make(chan struct{})
	dead.answers = slices.Repeat([]int{http.StatusServiceUnavailable}, 100)
	w.hook("dead", dead, true)
	w.hook("slow", slow, true)
	w.happen("dead", 0, 3)
	w.happen("slow", 0, 3)
	w.pass(old)
	w.start()
	<-w.held // the first delivery to the dead one has failed
	<-slow.seen
	w.hour()
	if dead, slow := len(w.kept("dead")), len(w.kept("slow")); dead != 0 || slow != 3 {
		t.Errorf("%d events of the dead one and %d of the one that was not tried are left", dead, slow)
	}
	if s := w.engine.Stats(); s.Expired != 3 {
		t.Errorf("%+v", s)
	}
	close(slow.silent)
}

// TestOldEventsOfSinks: old events that a syslog sink has not got do not end before it was tried.
func TestOldEventsOfSinks(t *testing.T) {
	w := newWorld(t)
	c := newCollector(t, "127.0.0.1:0")
	w.sinks = []syslog.Target{{Network: "tcp", Address: c.Addr().String()}}
	stop := w.start()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	stop()
	want := w.happen("p", 0, 3)
	w.pass(old)
	connects := make(chan struct{})
	w.prepare = func(e *Engine) { e.sinks[0].conn.Dial = dialAfter(connects) }
	w.start()
	w.hour()
	if n := len(w.kept("p")); n != 3 {
		t.Errorf("%d are left", n)
	}
	close(connects)
	until(t, "the sink", func() bool { return slices.Equal(c.events(), want) })
	until(t, "what is known of that", func() bool { return w.sent(c, "p") == 3 })
	w.hour()
	if n := len(w.kept("p")); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// TestSinkMissesWhatHasEnded: what has ended is lost for a sink that is down, and counts as that at once and only once.
// What happens later is for it.
func TestSinkMissesWhatHasEnded(t *testing.T) {
	w, l, said := datagrams(t)
	l.away.Store(true)
	w.hold = true
	w.start()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	w.happen("p", 0, 3)
	<-w.held // it is down
	w.pass(old)
	w.hour()
	w.sinkIs(0, 1, 3)
	if n := len(w.kept("p")); n != 0 {
		t.Errorf("%d are left", n)
	}
	w.happen("p", 3, 4)
	w.sinkIs(1, 1, 3)
	l.away.Store(false)
	w.resume()
	if got := <-l.got; got != "p-3" {
		t.Errorf("%s arrived", got)
	}
	w.sinkIs(0, 1, 3)
	if n := said.count("it has not taken them in time"); n != 1 {
		t.Errorf("%d lines", n)
	}
}

// TestEventsOfTheFuture: events that a clock has dated in the future, however many, keep none of those after them
// for longer.
func TestEventsOfTheFuture(t *testing.T) {
	w := newWorld(t)
	w.hook("p", newReceiver(t), false)
	w.set(100 * 24 * time.Hour)
	w.happen("p", 0, 2*tidied)
	w.set(0)
	w.happen("p", 2*tidied, 2*tidied+20)
	w.pass(old)
	w.happen("p", 2*tidied+20, 2*tidied+30)
	w.start()
	w.hour()
	if got := w.kept("p"); len(got) != 10 || got[0].ID != "p-532" {
		t.Errorf("%d are left", len(got))
	}
}

// TestEventsOfThePast: events that a clock has dated long ago do not end those that are before them. There are so many
// that one of them is looked at.
func TestEventsOfThePast(t *testing.T) {
	w := newWorld(t)
	w.hook("p", newReceiver(t), false)
	w.happen("p", 0, 2*tidied)
	w.set(-old)
	w.happen("p", 2*tidied, 2*tidied+3)
	w.set(0)
	w.pass(time.Hour)
	w.happen("p", 2*tidied+3, 2*tidied+4)
	w.clock = steady.New(w.wall) // that of another process, which knows nothing of it
	w.start()
	w.hour()
	if n := len(w.kept("p")); n != 2*tidied+4 {
		t.Errorf("%d are left", n)
	}
}

// TestEarlyDateWithinAPage: the same within the first events.
func TestEarlyDateWithinAPage(t *testing.T) {
	w := newWorld(t)
	w.hook("p", newReceiver(t), false)
	w.happen("p", 0, 3)
	w.set(-old)
	w.happen("p", 3, 4)
	w.set(100 * 24 * time.Hour)
	w.happen("p", 4, 5)
	w.set(0)
	w.pass(time.Hour)
	w.happen("p", 5, 6)
	w.clock = steady.New(w.wall) // that of another process, which knows nothing of it
	w.start()
	w.hour()
	if n := len(w.kept("p")); n != 6 {
		t.Errorf("%d are left", n)
	}
}

// TestRowsOfPortalsThatAreGone: nothing stays of a portal that is gone once it has no events: neither what a process
// has left that ended while it removed them, nor what a sink has stored afterwards, nor leases. What is there of others
// stays.
func TestRowsOfPortalsThatAreGone(t *testing.T) {
	w := newWorld(t)
	r, c := newReceiver(t), newCollector(t, "127.0.0.1:0")
	w.sinks = []syslog.Target{{Network: "tcp", Address: c.Addr().String()}}
	stop := w.start()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	for _, portal := range []string{"gone", "stays"} {
		w.hook(portal, r, true)
		w.happen(portal, 0, 2)
		until(t, portal, func() bool { return w.progress(portal).Cursor == cloud.EventName(portal, 2) && w.sent(c, portal) == 2 })
	}
	w.write(func(tx store.Tx) error { // these are there, and have no events
		return errors.Join(put(tx, cloud.Portals, "known", &cloud.Portal{Name: "known"}), put(tx, cloud.Positions, "known", &cloud.Position{Last: 3, First: 4}),
			put(tx, cloud.Webhooks, "led", &cloud.Webhook{}), put(tx, cloud.Positions, "led", &cloud.Position{Last: 3, First: 4}))
	})
	w.happen("full", 0, 1) // it has an event, which a login stored at the last moment
	until(t, "the last", func() bool { return w.sent(c, "full") == 1 })
	stop()
	before := w.rows()
	w.write(func(tx store.Tx) error {
		for _, row := range []*model.Resource{
			{Kind: cloud.SinkPositions, Scope: scopeOf("tcp://" + c.Addr().String()), Name: "later", Spec: &cloud.SinkPosition{Done: 3}},
			{Kind: lease.Leases, Name: hookLease + "killed", Spec: &lease.Row{Holder: "another", Epoch: 3}},
			{Kind: lease.Leases, Name: sinkLease + "former", Spec: &lease.Row{Epoch: 3}},
		} {
			if _, err := tx.Create(row); err != nil {
				return err
			}
		}
		if err := Forget(tx, "gone"); err != nil {
			return err
		}
		_, err := Purge(tx, "gone", 2) // the first page, and then the process ends
		return err
	})
	if n := len(w.kept("gone")); n != 0 {
		t.Fatalf("%d events are left", n)
	}
	w.log = slog.New(slog.NewTextHandler(t.Output(), nil))
	w.prepare = func(e *Engine) { e.hasTried("gone") }
	stop = w.start()
	<-w.rests
	stop()
	if w.engine.tried["gone"] {
		t.Error("it is remembered that the portal was tried")
	}
	want := slices.DeleteFunc(before, func(row string) bool { return strings.HasSuffix(row, "gone") })
	if got := w.rows(); !slices.Equal(got, want) {
		t.Errorf("rows:\n%q, want\n%q", got, want)
	}
	if n := len(w.kept("full")); n != 1 {
		t.Errorf("%d events are left", n)
	}
}

// rows are the kinds and names of the rows that say how far logs are, and of leases.
func (w *world) rows() (rows []string) {
	w.t.Helper()
	err := w.s.View(context.Background(), func(r store.Reader) error {
		scopes, err := scopesOfSinks(r)
		if err != nil {
			return err
		}
		for k, scopes := range map[*model.Kind][]string{cloud.Positions: {""}, cloud.Deliveries: {""}, lease.Leases: {""}, cloud.SinkPositions: append(scopes, "")} {
			for _, scope := range scopes {
				list, err := store.ListAll(r, k, store.Query{Scope: scope})
				if err != nil {
					return err
				}
				for _, row := range list {
					rows = append(rows, k.Name+" "+scope+" "+row.Name)
				}
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Sort(rows)
	return rows
}

// dialAfter makes connections once something has happened.
func dialAfter(happened <-chan struct{}) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-happened:
			return new(net.Dialer).DialContext(ctx, network, address)
		}
	}
}
