// Package embedded is the Redis of a control plane that is configured without one. It is an
// in-process server on loopback that implements only what this product needs. It keeps no
// data over a restart, which costs look-ups but never correctness, and bounds its own
// memory.
//
// # Invariants
//
//   - Before the password, the server answers only that a password is required, reads
//     at most some hundred bytes, and keeps nothing. Such connections are few and
//     short, and give way to newer ones.
//   - No length that a client sends is believed: see requests.
//   - There are two passwords. Filters get the one that can only read.
//   - A panic ends only the connection that caused it.
package embedded

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Defaults.
const (
	// Port is tried first. If it is taken, the next free port after it is used.
	Port  = 6390
	ports = 100
	// MaxKeys bounds the number of keys. It is far above the number of tombstones that are
	// replayed after a loss.
	MaxKeys = 1 << 20
	// untracked bounds the keys that were not tracked.
	untracked = 16
	// slack keeps ended keys for longer than a write may take, so that no key is removed
	// before it is written.
	slack = 2 * time.Second
	// sweepAtOnce bounds the keys removed in one critical section. sweepPause is the
	// shortest pause between two sweeps.
	sweepAtOnce = 512
	sweepPause  = 10 * time.Millisecond
	// handshake bounds the time until the password.
	handshake = 2 * time.Second
)

// Options of a Server.
type Options struct {
	// Port to try first; 0 means [Port].
	Port int
	// MaxKeys bounds keys; 0 means [MaxKeys].
	MaxKeys int
	// Now is the time by which keys expire; nil means time.Now. See package steady.
	Now func() time.Time
	// Handshake bounds the time until the password; 0 means 2 s.
	Handshake time.Duration
	// Log takes what goes wrong; nil discards it.
	Log *slog.Logger
}

// Server is a running Redis. It implements the tracker of package revoke.
type Server struct {
	o                    Options
	listener             net.Listener
	writer, reader, id   string
	writerSum, readerSum [sha256.Size]byte
	conns                conns
	owned                sync.WaitGroup
	stop                 chan struct{}
	wake                 chan struct{}
	fault                func(command []byte) // called before each command, in tests

	mu   sync.Mutex
	keys map[string]*item
	due  queue // records, by expiry
	hard queue // tombstones and floors, by expiry

	// reading guards values. It is taken inside mu, for single operations only.
	reading sync.RWMutex
	values  map[string][]byte
}

// Start starts a server with new random passwords.
func Start(o Options) (*Server, error) {
	s := unstarted(o)
	first := s.o.Port
	for p := first; p < first+ports; p++ {
		ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
		if err == nil {
			s.listener = ln
			s.owned.Go(s.expire)
			s.owned.Go(s.accept)
			return s, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("start the embedded redis: %w", err)
		}
	}
	return nil, fmt.Errorf("no port for the embedded redis is free from %d to %d", first, first+ports-1)
}

func unstarted(o Options) *Server {
	if o.Port == 0 {
		o.Port = Port
	}
	if o.MaxKeys == 0 {
		o.MaxKeys = MaxKeys
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Handshake == 0 {
		o.Handshake = handshake
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		o: o, writer: rand.Text(), reader: rand.Text(), id: rand.Text(), keys: map[string]*item{}, values: map[string][]byte{},
		stop: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	s.writerSum, s.readerSum = sha256.Sum256([]byte(s.writer)), sha256.Sum256([]byte(s.reader))
	return s
}

// Address returns host:port.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Port returns the port.
func (s *Server) Port() int { return s.listener.Addr().(*net.TCPAddr).Port }

// URL returns the URL for the control plane. It contains the password that can write, so it
// must not be given to others.
func (s *Server) URL() string { return "redis://:" + s.writer + "@" + s.Address() + "/0" }

// NodeURL returns the URL for filters. It contains the password that can only read. It
// belongs into files of mode 0600.
func (s *Server) NodeURL() string { return "redis://:" + s.reader + "@" + s.Address() + "/0" }

// Len returns the number of tracked keys.
func (s *Server) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.keys)
}

// Close stops the server and waits until its goroutines have ended.
func (s *Server) Close() {
	close(s.stop)
	_ = s.listener.Close() // accept notices
	s.conns.close()
	s.owned.Wait()
}

// accept serves connections until the listener closes. Other errors, such as too many open
// files, are temporary. A pause after each keeps the loop from spinning.
func (s *Server) accept() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		conn, err := s.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			s.o.Log.Warn("the embedded cache cannot accept a connection", "error", err)
			pause.Reset(acceptPause)
			select {
			case <-s.stop:
				return
			case <-pause.C:
			}
			continue
		case !s.conns.add(conn):
			_ = conn.Close() // the server is closing
			return
		}
		c := &session{s: s, conn: conn, in: &requests{in: bufio.NewReaderSize(conn, lineBuffer)}, out: bufio.NewWriter(conn)}
		s.owned.Go(c.serve)
	}
}

// acceptPause follows a failed accept.
const acceptPause = 50 * time.Millisecond
