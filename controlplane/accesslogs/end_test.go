package accesslogs

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/xds/logsink"
)

// fakeOutput is an output that a test can break.
type fakeOutput struct {
	lines       bytes.Buffer
	fail, stuck error
	tried       int
	// hold, if set, blocks writes, whatever their context says.
	hold chan struct{}
}

func (o *fakeOutput) write(_ context.Context, lines []byte) (int, error) {
	if o.hold != nil {
		<-o.hold
	}
	o.tried++
	if o.fail != nil {
		return 0, o.fail
	}
	return o.lines.Write(lines)
}

func (o *fakeOutput) standing() error { return o.stuck }

func (o *fakeOutput) close() {}

// TestLossesAtTheEnd: what a sink that ends cannot write is counted and said. One that only could
// not put its file aside writes. A line that comes too late is refused, so that it is counted.
func TestLossesAtTheEnd(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		fail, stuck error
		lines, said string
	}{
		"well":           {nil, nil, "one\ntwo\nthree\n", ""},
		"it fails":       {broken, nil, "", "its sink has ended"},
		"it only sticks": {nil, broken, "one\ntwo\nthree\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			out := &fakeOutput{fail: c.fail, stuck: c.stuck}
			testEnd(t, out, c.said)
			if got := out.lines.String(); got != c.lines {
				t.Errorf("written: %q", got)
			}
		})
	}
}

func testEnd(t *testing.T, out *fakeOutput, says string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newSink(logsink.Sink{File: "a.log"}, out, &Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Changed: func() {}})
		go s.run()
		s.put([]byte("one\n"))
		synctest.Wait()
		s.mu.Lock()
		s.queue = append(s.queue, "two\nthree\n"...) // it hears of its end before it is woken
		s.mu.Unlock()
		s.end()
		synctest.Wait()
		if said := log.String(); says == "" && said != "" || !strings.Contains(said, says) || says != "" && !strings.Contains(said, "lines=3") {
			t.Errorf("said: %s", said)
		}
		if s.put([]byte("late\n")) {
			t.Error("a line is taken after the end")
		}
	})
}

// idle is a listener to which nobody connects.
type idle struct{ closed chan struct{} }

func (l *idle) Accept() (net.Conn, error) { <-l.closed; return nil, net.ErrClosed }

func (l *idle) Close() error { close(l.closed); return nil }

func (l *idle) Addr() net.Addr { return &net.UnixAddr{} }

// TestLeavesWithoutTheDisk: a receiver ends in time though a file system answers nothing.
func TestLeavesWithoutTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		defer close(hold)
		o := Options{Log: slog.New(slog.DiscardHandler), Changed: func() {}}
		r := New(o)
		s := newSink(logsink.Sink{File: "a.log"}, &fakeOutput{hold: hold}, &o)
		r.sinks[s.what.Name()] = s
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Serve(ctx, &idle{make(chan struct{})}) }()
		if _, err := r.Export(t.Context(), batch(s.what.Name(), "line")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop()
		began := time.Now()
		select {
		case err := <-done:
			if took := time.Since(began); err != nil || took != leaveTimeout {
				t.Errorf("it took %v: %v", took, err)
			}
		case <-time.After(time.Hour):
			t.Fatal("it waits for the disk")
		}
	})
}
