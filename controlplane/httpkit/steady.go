package httpkit

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Pauses after a failed accept: the first one, and the longest one after doubling.
const (
	acceptPause    = 5 * time.Millisecond
	maxAcceptPause = time.Second
)

// steady is a listener whose Accept fails only when the listener is closed. After any other
// error, such as too many open files, it pauses and tries again. Otherwise the process would
// look healthy but accept no connections.
type steady struct {
	net.Listener
	log    *slog.Logger
	told   time.Time // time of the last logged failure; failures are logged once in each longest pause
	closed chan struct{}
	once   sync.Once
}

func keepAccepting(ln net.Listener, log *slog.Logger) *steady {
	return &steady{Listener: ln, log: log, closed: make(chan struct{})}
}

// Accept implements net.Listener, for one caller at a time. Its only error is
// net.ErrClosed, perhaps wrapped.
func (s *steady) Accept() (net.Conn, error) {
	for pause := acceptPause; ; pause = min(2*pause, maxAcceptPause) {
		conn, err := s.Listener.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		if now := time.Now(); now.Sub(s.told) >= maxAcceptPause {
			s.told = now
			s.log.Warn("connections cannot be accepted, which is tried again", "address", s.Addr(), "error", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.closed:
			timer.Stop()
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener.
func (s *steady) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Listener.Close()
}
