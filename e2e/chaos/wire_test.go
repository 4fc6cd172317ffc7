package chaos_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

// mode is what a wire does to the bytes and connections on it.
type mode int

const (
	// pass is a good network.
	pass mode = iota
	// freeze holds all bytes, and the ends of connections, until it is over.
	freeze
	// freezeUp holds what clients send, freezeDown what they are answered.
	freezeUp
	freezeDown
	// refuse resets what is open and whatever comes.
	refuse
	// slow delivers everything late.
	slow
	// blackhole loses what is sent, without a reset. A connection that has lost
	// something stays silent for good.
	blackhole
)

// lateness is how late a slow wire delivers.
const lateness = 300 * time.Millisecond

// wire is a TCP proxy on 127.0.0.1 that can be hurt.
type wire struct {
	name string
	ln   net.Listener
	work sync.WaitGroup

	mu      sync.Mutex
	target  string
	mode    mode
	changed chan struct{} // closed when the mode changes
	pairs   map[*pair]bool
	closed  bool
}

// pair is one connection through a wire.
type pair struct {
	client, server net.Conn // server is nil in a black hole
	ended          chan struct{}
	once           sync.Once
	lost           bool // guarded by the wire
}

// newWire starts one to a port of 127.0.0.1. It ends with the spec.
func newWire(name string, port int) *wire {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	w := &wire{name: name, target: local(port), ln: ln, changed: make(chan struct{}), pairs: map[*pair]bool{}}
	w.work.Go(w.serve)
	ginkgo.DeferCleanup(w.close)
	return w
}

// local is the address of a port.
func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// port is where the wire begins.
func (w *wire) port() int { return w.ln.Addr().(*net.TCPAddr).Port }

func (w *wire) serve() {
	for {
		conn, err := w.ln.Accept()
		if err != nil {
			return
		}
		w.work.Go(func() { w.carry(conn) })
	}
}

// carry takes one connection until its end.
func (w *wire) carry(client net.Conn) {
	p := &pair{client: client, ended: make(chan struct{})}
	w.mu.Lock()
	mode, closed, target := w.mode, w.closed, w.target
	if p.lost = mode == blackhole; !closed && mode != refuse {
		w.pairs[p] = true
	}
	w.mu.Unlock()
	defer w.forget(p)
	if closed || mode == refuse {
		p.reset()
		return
	}
	var both sync.WaitGroup
	if mode != blackhole {
		server, err := net.DialTimeout("tcp", target, 5*time.Second)
		if err != nil || !w.join(p, server) {
			p.reset()
			if server != nil {
				_ = server.Close()
			}
			return
		}
		both.Go(func() { w.pump(p, server, client, freezeDown) })
	}
	both.Go(func() { w.pump(p, client, p.server, freezeUp) })
	both.Wait()
}

// join gives a pair its other half, unless it was ended in between.
func (w *wire) join(p *pair, server net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.server = server
	return w.pairs[p]
}

func (w *wire) forget(p *pair) {
	w.mu.Lock()
	delete(w.pairs, p)
	w.mu.Unlock()
	p.close()
}

// pump carries one direction, which a mode of its own can freeze.
func (w *wire) pump(p *pair, from, to net.Conn, own mode) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		lost, now := w.gate(p, own)
		switch {
		case lost && err != nil: // an end is lost as well
			<-p.ended
			return
		case lost:
			continue
		case now == slow:
			p.wait(lateness)
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				p.reset()
				return
			}
		}
		if err != nil {
			p.end(to, err)
			return
		}
	}
}

// end passes the end of one direction on, as what it was.
func (p *pair) end(to net.Conn, err error) {
	if tcp, ok := to.(*net.TCPConn); ok && errors.Is(err, io.EOF) {
		_ = tcp.CloseWrite()
		return
	}
	p.reset()
}

// gate waits while a direction is frozen.
func (w *wire) gate(p *pair, own mode) (lost bool, now mode) {
	for {
		w.mu.Lock()
		lost, now := p.lost, w.mode
		changed := w.changed
		w.mu.Unlock()
		if now != freeze && now != own || lost {
			return lost, now
		}
		select {
		case <-changed:
		case <-p.ended:
			return false, now
		}
	}
}

// wait lets a time pass, unless the pair ends before.
func (p *pair) wait(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ended:
	}
}

// reset ends both halves without a farewell.
func (p *pair) reset() {
	for _, c := range []net.Conn{p.client, p.server} {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	}
	p.close()
}

// close ends both halves.
func (p *pair) close() {
	p.once.Do(func() { close(p.ended) })
	for _, c := range []net.Conn{p.client, p.server} {
		if c != nil {
			_ = c.Close()
		}
	}
}

// set changes the mode.
func (w *wire) set(m mode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mode = m
	close(w.changed)
	w.changed = make(chan struct{})
	for p := range w.pairs {
		p.lost = p.lost || m == blackhole
		if m == refuse {
			delete(w.pairs, p)
			p.reset()
		}
	}
}

// lead resets what is open and leads what comes to another port.
func (w *wire) lead(port int) {
	w.mu.Lock()
	w.target = local(port)
	w.mu.Unlock()
	w.cut()
}

// cut resets what is open, and takes what comes.
func (w *wire) cut() {
	w.set(refuse)
	w.set(pass)
}

func (w *wire) close() {
	_ = w.ln.Close()
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.set(refuse)
	w.work.Wait()
}
