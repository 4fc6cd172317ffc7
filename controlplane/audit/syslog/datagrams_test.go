package syslog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshgate/meshgate/e2e/ports"
)

var errAway = errors.New("network is unreachable")

// socket is a socket for datagrams that refuses those in refuses.
type socket struct {
	net.Conn
	refuses string
	got     []string
	closed  bool
}

func (s *socket) Write(b []byte) (int, error) {
	if string(b) == s.refuses {
		return 0, errAway
	}
	s.got = append(s.got, string(b))
	return len(b), nil
}

func (*socket) SetWriteDeadline(time.Time) error { return nil }

func (s *socket) Close() error {
	s.closed = true
	return nil
}

// TestDatagramsAreResolvedAnew: the name of a collector of datagrams is looked up each minute: nothing else tells that
// it has moved.
func TestDatagramsAreResolvedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var made []*socket
		c := Conn{Target: Target{Network: "udp"}, Dial: func(context.Context, string, string) (net.Conn, error) {
			made = append(made, &socket{})
			return made[len(made)-1], nil
		}}
		for i := range 9 { // one in 20 s
			if err := c.Send(t.Context(), [][]byte{[]byte("x")}); err != nil {
				t.Fatal(err)
			}
			if want := i/3 + 1; len(made) != want || want > 1 && !made[want-2].closed {
				t.Fatalf("after %d s there are %d sockets, want %d, and the former are closed", 20*i, len(made), want)
			}
			time.Sleep(20 * time.Second)
		}
	})
}

// TestDroppedDatagrams: those that cannot be written are counted, and hold up no others. Without a socket nothing is
// dropped.
func TestDroppedDatagrams(t *testing.T) {
	s, failed := &socket{refuses: "b"}, errAway
	c := Conn{Target: Target{Network: "udp"}, Dial: func(context.Context, string, string) (net.Conn, error) { return s, failed }}
	messages := [][]byte{[]byte("a"), []byte("b"), []byte("c"), []byte("b")}
	if _, dropped := errors.AsType[*Dropped](c.Send(t.Context(), messages)); dropped || len(s.got) != 0 {
		t.Errorf("without a socket it counts as written: %v", s.got)
	}
	failed = nil
	dropped, ok := errors.AsType[*Dropped](c.Send(t.Context(), messages))
	if !ok || dropped.Messages != 2 || !errors.Is(dropped, errAway) || len(s.got) != 2 || !s.closed {
		t.Errorf("%+v, %v arrived", dropped, s.got)
	}
}

// answered waits until the host of the receiver has answered to what was written.
func answered(t *testing.T, conn net.Conn) {
	t.Helper()
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	var failed error
	if err := raw.Control(func(fd uintptr) {
		for failed = unix.EINTR; errors.Is(failed, unix.EINTR); { // the runtime sends signals
			n, failed = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLERR}}, int(time.Minute.Milliseconds()))
		}
	}); err != nil || n != 1 {
		t.Fatalf("there is no answer: %v, %v", err, failed)
	}
}

// TestRefusedDatagrams: that nobody listens is known once the host of the collector has answered, and told with the
// next datagram, which is sent nevertheless. It is told, too, if there is one in each minute, and only once.
func TestRefusedDatagrams(t *testing.T) {
	free, err := ports.Free(1) // nobody else gets it before somebody listens there
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", free[0])
	c := Conn{Target: Target{Network: "udp", Address: address}}
	defer c.Close()
	send := func() error { return c.Send(t.Context(), [][]byte{[]byte("x")}) }
	if err := send(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		answered(t, c.conn)
		c.made = time.Now().Add(-resolveEvery)
		dropped, ok := errors.AsType[*Dropped](send())
		if !ok || dropped.Messages != 1 || !errors.Is(dropped, syscall.ECONNREFUSED) {
			t.Fatalf("%+v", dropped)
		}
	}
	answered(t, c.conn)
	pc, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pc.Close() }()
	if _, ok := errors.AsType[*Dropped](send()); !ok {
		t.Error("the last one that was refused is not told of")
	}
	if err := send(); err != nil {
		t.Error(err)
	}
}
