package accesslogs

import (
	"errors"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshgate/meshgate/xds/logsink"
)

// connected returns a stream that has written a line, and the connection at its server.
func connected(t *testing.T) (*stream, net.Conn) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	s, err := newStream(lis.Addr().String(), func(string, uint16) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	if _, err := s.write(t.Context(), []byte("line\n")); err != nil {
		t.Fatal(err)
	}
	conn, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return s, conn
}

// TestServerThatHangsUp: a server that closes a connection at once has failed.
func TestServerThatHangsUp(t *testing.T) {
	s, conn := connected(t)
	_ = conn.Close()
	select {
	case <-s.gone:
	case <-time.After(patience):
		t.Fatal("nobody notices")
	}
	if n, err := s.write(t.Context(), []byte("line\n")); n != 0 || !errors.Is(err, errClosed) {
		t.Errorf("%d bytes were written, %v", n, err)
	}
}

// TestPauses: an output that fails is not tried again and again without a pause, though lines come
// all the time.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &fakeOutput{fail: errClosed}
		s := newSink(logsink.Sink{TCP: "logs:1"}, out, &Options{Log: slog.New(slog.DiscardHandler), Changed: func() {}})
		go s.run()
		defer synctest.Wait()
		defer s.end()
		for range 1000 {
			s.put([]byte("line\n"))
			<-time.After(2 * time.Millisecond)
		}
		synctest.Wait()
		if out.tried < 2 || out.tried > 4 {
			t.Errorf("%d attempts in 2 s", out.tried)
		}
	})
}

// TestVanishedServer: the kernel gives the connection to a server up that confirms nothing, for
// example after a loss of power, as soon as one that takes nothing, and asks an idle one whether it
// is there.
func TestVanishedServer(t *testing.T) {
	s, _ := connected(t)
	raw, err := s.conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ level, option, want int }{
		"unconfirmed, in ms":   {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 5000},
		"asked":                {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		"asked after, in s":    {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 5},
		"asked again after, s": {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 1},
	} {
		got, failed := 0, error(nil)
		if err := raw.Control(func(fd uintptr) { got, failed = unix.GetsockoptInt(int(fd), c.level, c.option) }); err != nil || failed != nil || got != c.want {
			t.Errorf("%s: %d, want %d (%v, %v)", name, got, c.want, err, failed)
		}
	}
}
