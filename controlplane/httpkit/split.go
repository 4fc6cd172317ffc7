package httpkit

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// Protocol names of ALPN, RFC 7301.
const (
	protoHTTP1 = "http/1.1"
	protoHTTP2 = "h2"
)

const (
	handshakeTimeout = 10 * time.Second
	// handshakes bounds connections that are between accept and hand-over.
	handshakes = 256
)

// Split shares one TLS port between gRPC and HTTP. A client that offers
// http/1.1, or nothing, gets http/1.1 and comes out of httpLn; one that offers
// only h2, as gRPC clients do, comes out of grpcLn. Connections come out as
// *tls.Conn with the handshake done.
//
// Handshakes run in goroutines that the pair of listeners owns, at most 256 at
// a time, each for at most 10 s including the wait for Accept. Closing one
// listener drops its connections; closing both closes ln and waits for every
// goroutine. cfg is not changed; its NextProtos are replaced.
func Split(ln net.Listener, cfg *tls.Config) (grpcLn, httpLn net.Listener) {
	return split(ln, cfg, handshakeTimeout)
}

func split(ln net.Listener, cfg *tls.Config, timeout time.Duration) (grpcLn, httpLn net.Listener) {
	s := &splitter{ln: ln, cfg: byProtocol(cfg), timeout: timeout, slots: make(chan struct{}, handshakes)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.grpc, s.http = s.half(), s.half()
	s.work.Go(s.accept)
	return s.grpc, s.http
}

// byProtocol chooses the protocol per client, before the certificate.
func byProtocol(cfg *tls.Config) *tls.Config {
	with := func(c *tls.Config, proto string) *tls.Config {
		c = c.Clone()
		c.NextProtos = []string{proto}
		return c
	}
	http1, http2 := with(cfg, protoHTTP1), with(cfg, protoHTTP2)
	out := cfg.Clone()
	out.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c1, c2 := http1, http2
		if cfg.GetConfigForClient != nil {
			own, err := cfg.GetConfigForClient(hello)
			if err != nil {
				return nil, err
			}
			if own != nil {
				c1, c2 = with(own, protoHTTP1), with(own, protoHTTP2)
			}
		}
		if len(hello.SupportedProtos) == 0 || slices.Contains(hello.SupportedProtos, protoHTTP1) {
			return c1, nil
		}
		return c2, nil
	}
	return out
}

// splitter owns the listener, the accept loop and the handshakes.
type splitter struct {
	ln         net.Listener
	cfg        *tls.Config
	timeout    time.Duration
	slots      chan struct{}
	ctx        context.Context // the lifetime of the listeners, ended by Close
	cancel     context.CancelFunc
	work       sync.WaitGroup
	grpc, http *half

	mu     sync.Mutex
	closed int
	err    error
}

// half is one of the two listeners.
type half struct {
	s     *splitter
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (s *splitter) half() *half {
	return &half{s: s, conns: make(chan net.Conn), done: make(chan struct{})}
}

// accept ends when the listener fails; then both halves report its error.
func (s *splitter) accept() {
	for {
		select {
		case s.slots <- struct{}{}:
		case <-s.ctx.Done():
			return
		}
		conn, err := s.ln.Accept()
		if err != nil {
			<-s.slots
			if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
				continue
			}
			s.mu.Lock()
			s.err = err
			s.mu.Unlock()
			s.cancel()
			return
		}
		s.work.Go(func() {
			defer func() { <-s.slots }()
			s.handshake(conn)
		})
	}
}

// handshake hands a connection over or closes it.
func (s *splitter) handshake(raw net.Conn) {
	ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
	defer cancel()
	conn := tls.Server(raw, s.cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close() // a client's failure; it has had its alert
		return
	}
	h := s.http
	if conn.ConnectionState().NegotiatedProtocol == protoHTTP2 {
		h = s.grpc
	}
	select {
	case h.conns <- conn:
	case <-h.done:
		_ = raw.Close()
	case <-ctx.Done():
		_ = raw.Close()
	}
}

// Accept implements net.Listener.
func (h *half) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.done:
		return nil, net.ErrClosed
	case <-h.s.ctx.Done():
		h.s.mu.Lock()
		defer h.s.mu.Unlock()
		if h.s.err != nil {
			return nil, h.s.err
		}
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *half) Close() error {
	var err error
	h.once.Do(func() {
		close(h.done)
		h.s.mu.Lock()
		h.s.closed++
		last := h.s.closed == 2
		h.s.mu.Unlock()
		if last {
			err = h.s.ln.Close()
			h.s.cancel()
			h.s.work.Wait()
		}
	})
	return err
}

// Addr implements net.Listener.
func (h *half) Addr() net.Addr { return h.s.ln.Addr() }
