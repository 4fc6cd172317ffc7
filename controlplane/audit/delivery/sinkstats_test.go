package delivery

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit/syslog"
	"github.com/meshgate/meshgate/controlplane/cloud"
)

// line is a sink of datagrams that has no address while it is away, and refuses what it gets while it is deaf.
type line struct {
	net.Conn
	away, deaf atomic.Bool
	got        chan string
}

func (l *line) dial(context.Context, string, string) (net.Conn, error) {
	if l.away.Load() {
		return nil, errors.New("no such host")
	}
	return l, nil
}

func (l *line) Write(b []byte) (int, error) {
	if l.deaf.Load() {
		return 0, errors.New("connection refused")
	}
	_, rest, _ := strings.Cut(string(b), "event_id=")
	id, _, _ := strings.Cut(rest, " ")
	l.got <- id
	return len(b), nil
}

func (*line) SetWriteDeadline(time.Time) error { return nil }
func (*line) Close() error                     { return nil }

// datagrams is a world with a sink of datagrams.
func datagrams(t *testing.T) (w *world, l *line, said *lines) {
	t.Helper()
	w, l, said = newWorld(t), &line{got: make(chan string, 1000)}, &lines{}
	w.log = slog.New(slog.NewTextHandler(said, nil))
	w.sinks = []syslog.Target{{Network: "udp", Address: "siem.example.com:8071"}}
	w.prepare = func(e *Engine) { e.sinks[0].conn.Dial = l.dial }
	return w, l, said
}

// sinkIs waits until the figures of the sink are these.
func (w *world) sinkIs(waiting, failures, lost uint64) {
	w.t.Helper()
	var got []uint64
	defer func() {
		if w.t.Failed() {
			w.t.Logf("waiting, failures, lost: %v", got)
		}
	}()
	until(w.t, "the figures", func() bool {
		events, err := w.engine.SinksWaiting(w.t.Context())
		s := w.engine.SinkStats()[0]
		got = append(slices.Clone(events), s.Failures, s.Lost)
		return err == nil && slices.Equal(got, []uint64{waiting, failures, lost})
	})
}

const (
	textNone  = "a syslog sink gets no events now"
	textAgain = "a syslog sink gets events again"
	textLost  = "events of an audit log are lost for a syslog sink"
)

// TestDatagramsWithoutAnAddress: what cannot be sent, because the name of the collector cannot be looked up, is kept
// and sent later. The log says so once, and when it works again.
func TestDatagramsWithoutAnAddress(t *testing.T) {
	w, l, said := datagrams(t)
	l.away.Store(true)
	w.hold = true
	w.start()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	want := w.happen("p", 0, 5)
	for range 3 {
		<-w.held
		w.resume()
	}
	<-w.held
	w.sinkIs(5, 4, 0)
	if none, again := said.count(textNone), said.count(textAgain); none != 1 || again != 0 {
		t.Errorf("%d and %d lines", none, again)
	}
	l.away.Store(false)
	w.resume()
	for _, id := range want {
		if got := <-l.got; got != id {
			t.Errorf("%s arrived, want %s", got, id)
		}
	}
	w.sinkIs(0, 4, 0)
	until(t, "the line", func() bool { return said.count(textAgain) == 1 })
	if all := said.count("a syslog sink"); all != 2 {
		t.Errorf("%d lines", all)
	}
}

// TestDatagramsThatAreRefused: datagrams that cannot be written are counted as lost. The log says so once until there
// was no error for a minute.
func TestDatagramsThatAreRefused(t *testing.T) {
	w, l, said := datagrams(t)
	w.start()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	n := 0
	happen := func(lost uint64) {
		t.Helper()
		w.happen("p", n, n+1)
		n++
		until(t, "it is done with", func() bool { s, err := w.engine.SinksWaiting(t.Context()); return err == nil && s[0] == 0 })
		w.sinkIs(0, lost, lost)
	}
	for streak := range uint64(2) {
		for i := range uint64(3) { // the kernel refuses no more than every second one
			l.deaf.Store(true)
			happen(3*streak + i + 1)
			l.deaf.Store(false)
			happen(3*streak + i + 1)
		}
		if lost, again := said.count(textLost), said.count(textAgain); lost != int(streak)+1 || again != int(streak) {
			t.Errorf("%d and %d lines", lost, again)
		}
		w.pass(quiet)
		happen(3*streak + 3)
	}
	if again := said.count(textAgain); again != 2 {
		t.Errorf("%d lines", again)
	}
}

// TestSinkMissesWhatIsCrowdedOut: what there is no room for is lost for a sink that is down, and does not wait.
func TestSinkMissesWhatIsCrowdedOut(t *testing.T) {
	maxEvents = 10
	t.Cleanup(func() { maxEvents = cloud.MaxEvents })
	w, l, _ := datagrams(t)
	l.away.Store(true)
	w.hold = true
	w.start()
	until(t, "the sinks", func() bool { return w.registered() == 1 })
	w.happen("p", 0, 1)
	<-w.held
	w.happen("p", 1, 15)
	w.sinkIs(10, 1, 0)
	l.away.Store(false)
	w.resume()
	w.sinkIs(0, 1, 5)
}
