package delivery

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/cloud/cloudtest"
	"github.com/meshgate/meshgate/controlplane/lease"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

// kept are the events of a portal that are there.
func (w *world) kept(portal string) []audit.Event {
	w.t.Helper()
	return cloudtest.Events(w.t, w.s, portal)
}

// TestLongTexts: what strangers choose is cut, and stays UTF-8.
func TestLongTexts(t *testing.T) {
	w := newWorld(t)
	w.hook("p", newReceiver(t), false)
	long := strings.Repeat("ü", 5000)
	for _, text := range []string{long, "x" + long, strings.Repeat("\xff", 5000), "\xff\xfe short"} {
		w.write(func(tx store.Tx) error {
			return Put(tx, audit.Event{Portal: "p", Request: text, UserAgent: text, Principal: text, Trace: text, ID: text, Organization: text, Method: audit.Method(text), Outcome: audit.Outcome(text)})
		})
	}
	for _, e := range w.kept("p") {
		for text, most := range map[string]int{e.Request: maxText, e.UserAgent: maxText, e.Principal: maxID, e.Trace: maxID, e.ID: maxID, e.Organization: maxID, string(e.Method): maxID, string(e.Outcome): maxID} {
			if len(text) > most || len(text) < 3 || !utf8.ValidString(text) {
				t.Errorf("%d bytes: %.20q", len(text), text)
			}
		}
		if e.Time.IsZero() {
			t.Error("an event without a time")
		}
	}
	if got := cut("äöü", 5); got != "äö" {
		t.Errorf("cut to %q", got)
	}
}

// TestTooManyEvents: beyond the most that are kept of a portal the oldest are dropped, and what nobody has
// got of them is counted.
func TestTooManyEvents(t *testing.T) {
	maxEvents = 10
	t.Cleanup(func() { maxEvents = cloud.MaxEvents })
	w := newWorld(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	stop := w.start()
	all := w.happen("p", 0, 4)
	until(t, "the first", func() bool { return w.progress("p").Cursor == cloud.EventName("p", 4) })
	stop()
	all = append(all, w.happen("p", 4, 25)...)
	if got := w.kept("p"); len(got) != 10 || got[0].ID != "p-15" {
		t.Errorf("%d are kept: %v", len(got), got)
	}
	w.start()
	until(t, "the rest", func() bool { return len(r.events()) == 14 })
	if got := r.events(); !slices.Equal(got, slices.Concat(all[:4], all[15:])) {
		t.Errorf("%v arrived", got)
	}
	until(t, "the count", func() bool { s := w.engine.Stats(); return s.Crowded == 11 && s.Expired == 0 })
}

// TestEventsEnd: events are removed seven days after they were stored, and those of them that nobody has
// got are counted, also while their webhook is off. Those wait until a process has run for an hour.
func TestEventsEnd(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	w.hook("off", r, false)
	stop := w.start()
	w.happen("p", 0, 2)
	until(t, "the first", func() bool { return w.progress("p").Cursor == cloud.EventName("p", 2) })
	w.happen("off", 0, 300)
	stop()
	w.pass(3 * time.Hour)
	w.happen("p", 2, 4)
	w.pass(cloud.KeptEvents - 3*time.Hour - time.Minute)
	stop = w.start()
	until(t, "what has not ended", func() bool { return w.progress("p").Cursor == cloud.EventName("p", 4) })
	stop()
	if len(w.kept("p")) != 4 || len(w.kept("off")) != 300 || w.engine.Stats().Expired != 0 {
		t.Errorf("too early %d of 4 and %d of 300 are left", len(w.kept("p")), len(w.kept("off")))
	}
	w.pass(2 * time.Minute)
	w.start()
	until(t, "the removal of what was delivered", func() bool { return len(w.kept("p")) == 2 })
	w.hour()
	if off, p := len(w.kept("off")), len(w.kept("p")); off != 0 || p != 2 {
		t.Errorf("%d and %d are left", off, p)
	}
	until(t, "the count", func() bool { return w.engine.Stats().Expired == 300 })
	w.hook("off", r, true)
	want := w.happen("off", 300, 301)
	until(t, "what is new", func() bool { return slices.Contains(r.events(), want[0]) })
	if s := w.engine.Stats(); s.Expired != 300 || len(r.events()) != 5 {
		t.Errorf("%+v, %d arrived", s, len(r.events()))
	}
}

// TestClockThatIsSet: no setting of the clock, however long it stays, ends an event before seven days
// have passed.
func TestClockThatIsSet(t *testing.T) {
	w := newWorld(t)
	w.hook("p", newReceiver(t), false)
	w.set(-20 * 24 * time.Hour)
	w.happen("p", 0, 1) // dated in the past
	w.set(0)
	w.happen("p", 1, 2)
	w.set(30 * 24 * time.Hour)
	w.pass(3 * 24 * time.Hour) // longer than a window of the clock
	tidied := func() {
		stop := w.start()
		w.hour()
		stop()
	}
	tidied()
	if n := len(w.kept("p")); n != 2 {
		t.Errorf("%d of 2 are left after three days", n)
	}
	w.pass(5 * 24 * time.Hour)
	w.set(0)
	tidied()
	// Eight days have passed. Who dated the second one by the clock that was right may find it behind.
	if got := w.kept("p"); len(got) != 1 || got[0].ID != "p-1" {
		t.Errorf("%v are left", got)
	}
}

// TestEventsCostOthersNothing: events take no revision and leave no change records.
func TestEventsCostOthersNothing(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	w.start()
	records := func() (n int) {
		_ = w.s.View(t.Context(), func(r store.Reader) (err error) {
			n, err = r.CountRecords(store.RecordQuery{Fleeting: true})
			return err
		})
		return n
	}
	revision, before := w.s.Revision(), records()
	<-w.lingers // nothing but the commits of these events wakes up the worker
	want := w.happen("p", 0, 20)
	until(t, "all", func() bool { return slices.Equal(r.events(), want) })
	if got, after := w.s.Revision(), records(); got != revision || after != before {
		t.Errorf("revision %d, not %d; %d records, not %d", got, revision, after, before)
	}
}

// sqlite opens a store in a file.
func sqlite(t testing.TB, path string, now func() time.Time) store.Store {
	t.Helper()
	s, err := tryStore(path, now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// tryStore opens a store that may be another process's.
func tryStore(path string, now func() time.Time) (store.Store, error) {
	keys, err := seal.New(make([]byte, seal.RootSize))
	if err != nil {
		return nil, err
	}
	return sqlstore.Open(context.Background(), sqlstore.Options{Path: path, Kinds: slices.Concat(cloud.Kinds(), lease.Kinds()), Sealer: keys, Log: slog.New(slog.DiscardHandler), Now: now})
}

// TestOnDisk: an event is synchronised to disk even if the transaction was said to need less, in which
// case it runs once more; and all goes the same way as in memory.
func TestOnDisk(t *testing.T) {
	w := blankWorld(t)
	w.open(sqlite(t, filepath.Join(t.TempDir(), "meshgate.db"), w.time))
	r := newReceiver(t, 500, 200, 503)
	w.hook("p", r, true)
	// The engine begins later: a commit of its own could take these along, and would be synchronised at once.
	runs := map[model.Class]int{}
	for _, class := range []model.Class{model.Config, model.Credential} {
		_, err := w.gate.Write(t.Context(), class, func(tx store.Tx) error {
			runs[class]++
			return Put(tx, audit.Event{ID: "x", Portal: "p"})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if runs[model.Config] != 1 || runs[model.Credential] != 2 {
		t.Errorf("the transactions ran %v times", runs)
	}
	w.start()
	want := append([]string{"x", "x"}, w.happen("p", 0, 120)...)
	until(t, "all", func() bool { return len(r.events()) == len(want) })
	if got := r.events(); !slices.Equal(got, want) {
		t.Errorf("%v arrived", got)
	}
}

// TestUnreadableEvent: one event that cannot be read is passed over and counted. It holds up neither the
// rest of its portal nor others.
func TestUnreadableEvent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	w := blankWorld(t)
	w.open(sqlite(t, path, w.time))
	r := newReceiver(t)
	w.hook("p", r, true)
	w.hook("a", r, true) // before p by name
	all := append(w.happen("a", 0, 3), w.happen("p", 0, 5)...)
	_ = w.s.Close()
	spoil(t, path, cloud.EventName("p", 3), cloud.EventName("a", 3))
	w.open(sqlite(t, path, w.time))
	w.start()
	want := without(all, "p-2", "a-2")
	until(t, "the rest", func() bool {
		return w.progress("p").Cursor == cloud.EventName("p", 5) && w.progress("a").Cursor == cloud.EventName("a", 3)
	})
	until(t, "the count", func() bool { return w.engine.Stats().Unreadable == 2 })
	got := r.events()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%v arrived, %+v", got, w.engine.Stats())
	}
}

// TestNothingIsRepeated: an engine that begins where another one has ended sends nothing again, however
// many batches there were.
func TestNothingIsRepeated(t *testing.T) {
	w := newWorld(t)
	r := newReceiver(t)
	w.hook("p", r, true)
	var want []string
	for i, n := range []int{0, 1, 200, 201, 399, 400, 650} {
		if i > 0 {
			want = append(want, w.happen("p", len(want), n)...)
		}
		stop := w.start()
		until(t, "the progress", func() bool { return n == 0 || w.progress("p").Cursor == cloud.EventName("p", uint64(n)) })
		stop()
	}
	if got := r.events(); !slices.Equal(got, want) {
		t.Errorf("%d events arrived: %v", len(got), got)
	}
}
