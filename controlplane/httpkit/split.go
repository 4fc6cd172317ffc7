package httpkit

import (
	"context"
	"crypto/tls"
	"log/slog"
	"math"
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
	// helloTimeout is the time until the ClientHello is complete. A client sends it at once,
	// but in a crowd the client or its reader may have to wait for a processor.
	helloTimeout = 5 * time.Second
	// handshakeTimeout is the time until hand-over, including the wait for a slot. Clients
	// of gRPC give up after 20 s.
	handshakeTimeout = 15 * time.Second
	// shakingTimeout is the time for the handshake itself, which takes two round trips.
	shakingTimeout = 3 * time.Second
	// silentTotal bounds the connections without a ClientHello.
	silentTotal = 8192
	// handshakesEach bounds the unfinished handshakes of an address, and so the work that
	// one address can cause. Each handshake has 3 s.
	handshakesEach = 64
	// computing bounds the handshakes that compute at the same time.
	computing = 512
	// begun bounds the handshakes that wait for their client, or have done so.
	begun = 4096
	// queueTotal bounds the connections that wait to begin. There is room for a fleet of
	// 5,000 proxies that come at once from one address, as through a balancer, and for
	// others.
	queueTotal = 8192
)

// Split shares one TLS port between gRPC and HTTP. A client that offers http/1.1, or
// nothing, gets http/1.1 and comes out of httpLn. A client that offers only h2, as gRPC
// clients do, comes out of grpcLn. Connections come out as *tls.Conn with the handshake
// done.
//
// Every connection is accepted at once and must send its ClientHello within 5 s. It is
// dropped after 15 s, including the wait for Accept. Connections that have not sent a
// ClientHello are bounded, and the newest takes the place of the oldest (see [room]), so
// silent clients keep nobody out, not even at their own address. After the ClientHello, a
// connection waits until its address has less than its share of unfinished handshakes, and
// for its turn among addresses (see [quota]). A handshake takes a slot only while there is
// something to compute (see [pace]). Those that wait for their client are bounded like
// silent clients. So a client that begins handshakes without ending them slows down only its
// own address.
//
// Handshakes run in goroutines that the pair of listeners owns. Closing one listener drops
// its connections. Closing both closes ln and waits for every goroutine. Until then the pair
// keeps accepting, even after failures, which it logs. cfg is not changed; its NextProtos
// are replaced.
func Split(ln net.Listener, cfg *tls.Config, log *slog.Logger) (grpcLn, httpLn net.Listener) {
	return split(keepAccepting(ln, log), cfg, helloTimeout, handshakeTimeout)
}

// Handshaken has all clients of a TLS port come out of one listener, whatever the protocol, with
// the bounds of [Split]. cfg is used as it is. Closing the listener closes ln.
func Handshaken(ln net.Listener, cfg *tls.Config, log *slog.Logger) net.Listener {
	return handshaken(keepAccepting(ln, log), cfg, helloTimeout, handshakeTimeout)
}

func handshaken(ln net.Listener, cfg *tls.Config, hello, timeout time.Duration) net.Listener {
	s := newSplitter(ln, cfg, hello, timeout)
	s.http = s.half()
	s.work.Go(s.accept)
	return s.http
}

func split(ln net.Listener, cfg *tls.Config, hello, timeout time.Duration) (grpcLn, httpLn net.Listener) {
	s := newSplitter(ln, byProtocol(cfg), hello, timeout)
	s.grpc, s.http = s.half(), s.half()
	s.work.Go(s.accept)
	return s.grpc, s.http
}

func newSplitter(ln net.Listener, cfg *tls.Config, hello, timeout time.Duration) *splitter {
	s := &splitter{
		ln: ln, cfg: cfg, hello: hello, timeout: timeout,
		silent: newRoom(silentTotal, silentTotal), begun: newRoom(begun, handshakesEach),
		shaking: newQuota(math.MaxInt, handshakesEach, queueTotal),
		slots:   newQuota(computing, handshakesEach, queueTotal),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// byProtocol chooses the protocol for each client, before the certificate.
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
	hello      time.Duration
	timeout    time.Duration
	silent     *room           // connections without a ClientHello
	shaking    *quota          // connections with a ClientHello, during the handshake
	slots      *quota          // handshakes that compute
	begun      *room           // handshakes since they first waited for their client
	ctx        context.Context // the lifetime of the listeners, ended by Close
	cancel     context.CancelFunc
	work       sync.WaitGroup
	grpc, http *half // grpc is nil if there is one listener only

	mu   sync.Mutex
	open int
}

// half is one of the two listeners.
type half struct {
	s     *splitter
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (s *splitter) half() *half {
	s.open++
	return &half{s: s, conns: make(chan net.Conn), done: make(chan struct{})}
}

// accept runs until the listener closes. Both halves then report that they are closed.
func (s *splitter) accept() {
	for {
		conn, err := s.ln.Accept()
		if err != nil {
			s.cancel()
			return
		}
		leave := s.silent.enter(conn)
		s.work.Go(func() {
			hello, err := s.greet(conn)
			leave()
			if err != nil {
				_ = conn.Close() // silent, or not a client of ours
				return
			}
			s.handshake(&greeted{Conn: conn, hello: hello})
		})
	}
}

// greet reads the ClientHello.
func (s *splitter) greet(conn net.Conn) ([]byte, error) {
	defer context.AfterFunc(s.ctx, func() { _ = conn.Close() })()
	if err := conn.SetReadDeadline(time.Now().Add(s.hello)); err != nil {
		return nil, err
	}
	hello, err := readHello(conn)
	if err != nil {
		return nil, err
	}
	return hello, conn.SetReadDeadline(time.Time{})
}

// handshake hands a connection over or closes it.
func (s *splitter) handshake(raw *greeted) {
	ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
	defer cancel()
	conn, ok := s.shake(ctx, raw)
	if !ok {
		_ = raw.Close() // the client failed, and has got its alert
		return
	}
	h := s.http
	if s.grpc != nil && conn.ConnectionState().NegotiatedProtocol == protoHTTP2 {
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

// shake does the handshake once its address has less than its share of them, and as far as
// there are slots.
func (s *splitter) shake(ctx context.Context, raw *greeted) (*tls.Conn, bool) {
	leave, ok := s.shaking.enter(ctx, raw)
	if !ok {
		return nil, false
	}
	defer leave()
	p := &pace{ctx: ctx, conn: raw.Conn, slots: s.slots, begun: s.begun}
	if p.work() != nil {
		return nil, false
	}
	defer p.end()
	ctx, cancel := context.WithTimeout(ctx, shakingTimeout)
	defer cancel()
	p.ctx, raw.pace = ctx, p
	defer func() { raw.pace = nil }()
	conn := tls.Server(raw, s.cfg)
	return conn, conn.HandshakeContext(ctx) == nil
}

// Accept implements net.Listener.
func (h *half) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.done:
		return nil, net.ErrClosed
	case <-h.s.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *half) Close() error {
	var err error
	h.once.Do(func() {
		close(h.done)
		h.s.mu.Lock()
		h.s.open--
		last := h.s.open == 0
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
