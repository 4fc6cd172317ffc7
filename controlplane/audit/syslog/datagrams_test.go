package syslog

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

var errRefused = errors.New("connection refused")

// socket is a socket for datagrams that refuses those in refuses.
type socket struct {
	net.Conn
	refuses string
	got     []string
	closed  bool
}

func (s *socket) Write(b []byte) (int, error) {
	if string(b) == s.refuses {
		return 0, errRefused
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
	s, failed := &socket{refuses: "b"}, errRefused
	c := Conn{Target: Target{Network: "udp"}, Dial: func(context.Context, string, string) (net.Conn, error) { return s, failed }}
	messages := [][]byte{[]byte("a"), []byte("b"), []byte("c"), []byte("b")}
	if _, dropped := errors.AsType[*Dropped](c.Send(t.Context(), messages)); dropped || len(s.got) != 0 {
		t.Errorf("without a socket it counts as written: %v", s.got)
	}
	failed = nil
	dropped, ok := errors.AsType[*Dropped](c.Send(t.Context(), messages))
	if !ok || dropped.Messages != 2 || !errors.Is(dropped, errRefused) || len(s.got) != 2 || !s.closed {
		t.Errorf("%+v, %v arrived", dropped, s.got)
	}
}
