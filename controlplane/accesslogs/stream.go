package accesslogs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	dialTimeout = 5 * time.Second
	// writeTimeout is how long a server may take no line, or confirm nothing that was sent, before
	// its connection is given up.
	writeTimeout = 5 * time.Second
	// aliveEvery is how long a connection is idle before the server is asked whether it is there.
	aliveEvery = 5 * time.Second
)

// stream is a server that takes lines over TCP.
type stream struct {
	address string
	dialer  net.Dialer
	conn    net.Conn
	// opened is when the connection was made. gone is closed when the server has closed it.
	opened time.Time
	gone   chan struct{}
}

// errClosed is the error of a server that closes connections as soon as it has accepted them.
// One that closes them later, perhaps because nothing was written, is connected to again at once.
var errClosed = errors.New("the server has closed the connection at once")

func (s *stream) standing() error { return nil }

func newStream(address string, reaches func(host string, port uint16) error) (*stream, error) {
	host, port, err := split(address)
	if err == nil {
		err = reaches(host, port)
	}
	if err != nil {
		return nil, err
	}
	s := &stream{address: address}
	s.dialer = net.Dialer{Timeout: dialTimeout, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: aliveEvery, Interval: time.Second, Count: 3}}
	s.dialer.Control = func(_, at string, c syscall.RawConn) error {
		host, port, err := split(at)
		if err == nil {
			err = reaches(host, port)
		}
		if err != nil {
			return err
		}
		return impatient(c)
	}
	return s, nil
}

// impatient makes a connection fail when nothing that was sent is confirmed for writeTimeout. The
// machine of a server that loses its power ends no connection, and the kernel would take lines for
// it, and send them again, for a quarter of an hour. Source: tcp(7), TCP_USER_TIMEOUT.
func impatient(c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(writeTimeout.Milliseconds()))
	})
	return errors.Join(err, failed)
}

func split(address string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || host == "" {
		return "", 0, fmt.Errorf("%q is not HOST:PORT", address)
	}
	return host, uint16(n), nil
}

func (s *stream) close() {
	if s.conn != nil {
		_ = s.conn.Close()
		<-s.gone
		s.conn = nil
	}
}

// write sends lines on the connection that is open, or on a new one. After a failure, lines of
// which not everything was sent are sent again, from their beginning.
func (s *stream) write(ctx context.Context, lines []byte) (int, error) {
	if s.conn != nil {
		select {
		case <-s.gone: // what is written there is lost
			s.close()
			if time.Since(s.opened) < steady {
				return 0, errClosed
			}
		default:
		}
	}
	if s.conn == nil {
		conn, err := s.dialer.DialContext(ctx, "tcp", s.address)
		if err != nil {
			return 0, err
		}
		s.conn, s.opened, s.gone = conn, time.Now(), make(chan struct{})
		go watch(conn, s.gone)
	}
	conn := s.conn // the function below may run when the stream has another one, or none
	n, err := 0, conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	stop := context.AfterFunc(ctx, func() { _ = conn.SetWriteDeadline(time.Now()) })
	defer stop()
	if err == nil {
		n, err = conn.Write(lines)
	}
	if err != nil {
		s.close()
		return bytes.LastIndexByte(lines[:n], '\n') + 1, err
	}
	return n, nil
}

// watch reads until the connection ends. Servers of lines say nothing, and what they say is
// dropped.
func watch(conn net.Conn, gone chan<- struct{}) {
	defer close(gone)
	buf := make([]byte, 512)
	for {
		if _, err := conn.Read(buf); err != nil {
			return
		}
	}
}
