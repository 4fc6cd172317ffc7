package accesslogs

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/xds/logsink"
)

// hangsUp is an output that fails with every second attempt, as a server does that closes each
// connection once it has accepted it.
type hangsUp struct {
	begun time.Time
	// opened are the times of the connections, since the beginning.
	opened []time.Duration
	open   bool
}

func (h *hangsUp) write(_ context.Context, lines []byte) (int, error) {
	if h.open = !h.open; !h.open {
		return 0, errClosed
	}
	h.opened = append(h.opened, time.Since(h.begun))
	return len(lines), nil
}

func (h *hangsUp) standing() error { return nil }

func (h *hangsUp) close() {}

// TestServerThatHangsUp is not connected to again and again without a pause: each is longer than
// the one before it.
func TestServerThatHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &hangsUp{begun: time.Now()}
		s := newSink(logsink.Sink{TCP: "192.0.2.1:514"}, out, &Options{Log: slog.New(slog.DiscardHandler), Changed: func() {}})
		ran := make(chan struct{})
		go func() { defer close(ran); s.run() }()
		for range 5000 { // ten seconds
			s.put([]byte("line\n"))
			time.Sleep(2 * time.Millisecond)
		}
		s.end()
		<-ran
		var pauses []time.Duration
		for i := 1; i < len(out.opened); i++ {
			pauses = append(pauses, (out.opened[i] - out.opened[i-1]).Truncate(minPause))
		}
		if diff := cmp.Diff([]time.Duration{minPause, 2 * minPause, 4 * minPause, 8 * minPause, 16 * minPause}, pauses); diff != "" {
			t.Errorf("pauses (-want +got):\n%s", diff)
		}
	})
}

// TestConnectionThatIsClosedAtOnce is no success: the next write says so, and the one after it
// connects again.
func TestConnectionThatIsClosedAtOnce(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	hung := make(chan struct{})
	go func() {
		defer close(hung)
		conn, err := lis.Accept()
		if err == nil {
			_ = conn.Close()
		}
	}()
	s, err := newStream(lis.Addr().String(), func(string, uint16) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if _, err := s.write(t.Context(), []byte("one\n")); err != nil {
		t.Fatal(err)
	}
	<-hung
	<-s.gone
	if _, err := s.write(t.Context(), []byte("two\n")); !errors.Is(err, errClosed) {
		t.Errorf("the second write: %v", err)
	}
	if n, err := s.write(t.Context(), []byte("two\n")); err != nil || n != len("two\n") {
		t.Errorf("the third write: %d, %v", n, err)
	}
}
