package delivery

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/meshgate/meshgate/controlplane/audit/syslog"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

var errDisk = errors.New("the disk does not answer")

// holey is a store that cannot read how far sinks are with the logs of some portals, or of any if it names none,
// while broken is set.
type holey struct {
	store.Store
	portals []string
	broken  *atomic.Bool
}

func (h holey) View(ctx context.Context, fn func(store.Reader) error) error {
	return h.Store.View(ctx, func(r store.Reader) error { return fn(holeyReader{r, h}) })
}

type holeyReader struct {
	store.Reader
	holey
}

func (h holeyReader) Get(k *model.Kind, scope, name string) (*model.Resource, error) {
	if k == cloud.SinkPositions && scope != "" && (len(h.portals) == 0 || slices.Contains(h.portals, name)) && h.broken.Load() {
		return nil, errDisk
	}
	return h.Reader.Get(k, scope, name)
}

// unread is a world with a sink and a store of which a part cannot be read.
func unread(t *testing.T, portals ...string) (w *world, c *collector, said *lines, broken *atomic.Bool) {
	t.Helper()
	w, c, said, broken = blankWorld(t), newCollector(t, "127.0.0.1:0"), &lines{}, &atomic.Bool{}
	w.log = slog.New(slog.NewTextHandler(said, nil))
	w.open(holey{memstore.Open(memstore.Options{Now: w.time}), portals, broken})
	w.sinks = []syslog.Target{{Network: "tcp", Address: c.Addr().String()}}
	broken.Store(true)
	w.start()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	return w, c, said, broken
}

const (
	textUnread = "a syslog sink cannot read an audit log now"
	textRead   = "a syslog sink can read all audit logs again"
)

// told are how often the log has a failure to read, and how often anything about a sink.
func (l *lines) told(t *testing.T, want int) {
	t.Helper()
	if n, all := l.count(textUnread), l.count("a syslog sink")-l.count(textRead); n != want || all != want || l.count(errDisk.Error()) != want {
		t.Errorf("%d of %d lines say that a log cannot be read: %s", n, all, l.buf.String())
	}
}

// TestSinkReadsAgain: a portal that could not be read goes on as soon as another one is read after the store can
// be read again, and does not sit out a wait of its own. Others go on meanwhile, and the log says it once.
func TestSinkReadsAgain(t *testing.T) {
	w, c, said, broken := unread(t, "bad")
	want := w.happen("bad", 0, 2)
	<-w.held // it has failed until the waits are long
	want = append(w.happen("good", 0, 3), want...)
	until(t, "another portal", func() bool { return slices.Equal(c.events(), want[:3]) })
	said.told(t, 1)
	if again, s := said.count(textRead), w.engine.SinkStats()[0]; again != 0 || s.Failures == 0 {
		t.Errorf("%d lines, %+v", again, s)
	}
	broken.Store(false)
	w.happen("good", 3, 4)
	until(t, "the portal", func() bool { return len(c.events()) == 6 })
	if got := without(c.events(), "good-3"); !slices.Equal(got, want) {
		t.Errorf("%v arrived", got)
	}
	until(t, "the line", func() bool { return said.count(textRead) == 1 })
	broken.Store(true)
	w.happen("bad", 2, 3)
	<-w.held // the waits were short again before
	said.told(t, 2)
}

// TestSinkReadsEverythingAgain: while nothing can be read the log says so once, whatever number of portals have
// something; after it, one wait brings all of them, and no one waits for anything else.
func TestSinkReadsEverythingAgain(t *testing.T) {
	w, c, said, broken := unread(t)
	want := w.happen("a", 0, 1)
	<-w.held // it has failed until the waits are long
	failures := func() uint64 { return w.engine.SinkStats()[0].Failures }
	before := failures()
	for _, portal := range []string{"b", "c", "d", "e"} {
		want = append(want, w.happen(portal, 0, 1)...)
	}
	until(t, "the failures of the others", func() bool { return failures() == before+4 }) // a read that succeeds would end the wait
	said.told(t, 1)
	broken.Store(false)
	w.resume()
	until(t, "all", func() bool { return len(c.events()) == len(want) })
	if got := slices.Sorted(slices.Values(c.events())); !slices.Equal(got, want) {
		t.Errorf("%v arrived", got)
	}
	said.told(t, 1)
}

// TestSinkNamesEachLogItCannotRead: a log that cannot be read is named also if it fails while another one was the
// last that was tried: at its first failure after a read that succeeds, and once.
func TestSinkNamesEachLogItCannotRead(t *testing.T) {
	w, c, said, _ := unread(t, "a", "b")
	failures := func() uint64 { return w.engine.SinkStats()[0].Failures }
	w.happen("a", 0, 1)
	<-w.held // it has failed until the waits are long
	before := failures()
	w.happen("b", 0, 1)
	until(t, "the failure of the second", func() bool { return failures() == before+1 })
	said.told(t, 1) // nothing was read since: the store may be away as a whole
	for i := range 6 {
		before = failures()
		w.happen("good", i, i+1)
		until(t, "another portal", func() bool { return len(c.events()) == i+1 })
		until(t, "one more failure", func() bool { return failures() > before })
	}
	said.told(t, 2)
	for _, portal := range []string{"a", "b"} {
		if n := said.count("portal=" + portal + " "); n != 1 {
			t.Errorf("%s is named %d times", portal, n)
		}
	}
}
