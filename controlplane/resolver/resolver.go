// Package resolver is the DNS server of a sidecar's agent. It answers for the host names of the
// mesh with the addresses at which the sidecar takes connections for them, and passes every other
// question on to the resolvers of the machine as it is.
//
// Envoy's own filter for DNS says that a name does not exist if it has an address of the other
// family only, which some resolvers take at its word (RFC 8020), knows two types of records, and
// does not speak TCP (RFC 7766).
package resolver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/xds/naming"
)

// Options configure a server.
type Options struct {
	// Address is where it listens, over UDP and TCP.
	Address netip.AddrPort
	// Upstreams are asked in their order what the mesh does not know. If there are none, they are
	// those of [MachineResolvers] at the time of each question, without the server itself.
	Upstreams []netip.AddrPort
	Log       *slog.Logger
}

// Bounds of one server. A client that finds no room asks again.
const (
	maxQuestions   = 512
	maxConnections = 128
	// maxMessage is the length of any message (RFC 1035 section 4.2.2).
	maxMessage = 65535
	// idle is how long a connection may have no question, patience how long a resolver may
	// take for an answer.
	idle     = 10 * time.Second
	patience = 2 * time.Second
)

// Server is a DNS server. Serve owns its goroutines.
type Server struct {
	Options
	packets *net.UDPConn
	streams *net.TCPListener
	// table is nil until the names of the mesh are known.
	table atomic.Pointer[naming.Table]
	room  chan struct{}
	conns chan struct{}
}

// Open opens the sockets, so that a port that is in use is known at once.
func Open(o Options) (*Server, error) {
	packets, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(o.Address))
	if err != nil {
		return nil, fmt.Errorf("listen for DNS on %s: %w", o.Address, err)
	}
	streams, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(o.Address))
	if err != nil {
		_ = packets.Close()
		return nil, fmt.Errorf("listen for DNS on %s: %w", o.Address, err)
	}
	return &Server{Options: o, packets: packets, streams: streams, room: make(chan struct{}, maxQuestions), conns: make(chan struct{}, maxConnections)}, nil
}

// Set replaces the names of the mesh; nil says that they are not known.
func (s *Server) Set(t naming.Table) {
	if t == nil {
		s.table.Store(nil)
		return
	}
	s.table.Store(&t)
}

// known returns the names of the mesh, nil if they are not known.
func (s *Server) known() naming.Table {
	if t := s.table.Load(); t != nil {
		return *t
	}
	return nil
}

// Serve answers until ctx ends, which is no error. All goroutines have ended when it returns.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	failed := make(chan error, 2)
	work.Go(func() { failed <- s.servePackets(ctx, &work) })
	work.Go(func() { failed <- s.serveStreams(ctx, &work) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	ended := ctx.Err() != nil
	cancel()
	s.Close()
	work.Wait()
	if ended {
		return nil
	}
	return err
}

// Close closes the sockets of a server. Serve does it, too.
func (s *Server) Close() {
	_ = s.packets.Close()
	_ = s.streams.Close()
}

func (s *Server) servePackets(ctx context.Context, work *sync.WaitGroup) error {
	buffer := make([]byte, maxMessage)
	for {
		n, from, err := s.packets.ReadFromUDPAddrPort(buffer)
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			continue // of a client that is gone
		}
		query := append([]byte(nil), buffer[:n]...)
		reply, ours := answer(query, s.known())
		if !ours && s.take() {
			work.Go(func() {
				defer s.leave()
				s.send(s.pass(ctx, query, false), from)
			})
			continue
		}
		if !ours {
			reply = failure(query)
		}
		s.send(reply, from)
	}
}

func (s *Server) take() bool {
	select {
	case s.room <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s *Server) leave() { <-s.room }

func (s *Server) send(reply []byte, to netip.AddrPort) {
	if len(reply) > 0 {
		_, _ = s.packets.WriteToUDPAddrPort(reply, to) // a client that is gone needs none
	}
}

func (s *Server) serveStreams(ctx context.Context, work *sync.WaitGroup) error {
	for {
		conn, err := s.streams.AcceptTCP()
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			select { // the process may have no descriptors left
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		select {
		case s.conns <- struct{}{}:
			work.Go(func() {
				defer func() { <-s.conns }()
				s.serveStream(ctx, conn)
			})
		default:
			_ = conn.Close()
		}
	}
}

// serveStream answers the questions of one connection, one after the other.
func (s *Server) serveStream(ctx context.Context, conn *net.TCPConn) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		stop()
		_ = conn.Close()
	}()
	for {
		if conn.SetDeadline(time.Now().Add(idle)) != nil {
			return
		}
		query, err := readFramed(conn)
		if err != nil {
			return
		}
		reply, ours := answer(query, s.known())
		if !ours {
			reply = s.pass(ctx, query, true)
		}
		if len(reply) == 0 || writeFramed(conn, reply) != nil {
			return
		}
	}
}
