package freshness

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/meshgate/meshgate/filter/contract"
)

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}

// gate is a place where a network holds what it carries.
type gate struct {
	mu   sync.Mutex
	shut bool
	wake chan struct{}
}

func newGate() *gate { return &gate{wake: make(chan struct{})} }

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
	close(g.wake)
	g.wake = make(chan struct{})
}

// pass waits until the gate is open; false if quit came first.
func (g *gate) pass(quit <-chan struct{}) bool {
	for {
		g.mu.Lock()
		shut, wake := g.shut, g.wake
		g.mu.Unlock()
		if !shut {
			return true
		}
		select {
		case <-wake:
		case <-quit:
			return false
		}
	}
}

// wire is one connection. What is sent is carried in its order, and so is the end
// of either side; a network that holds it loses nothing. Cut, it carries nothing
// any more, and both sides notice at once.
type wire struct {
	near, far io.ReadWriteCloser
	gone      chan struct{}
	once      sync.Once
}

func newWire(near, far io.ReadWriteCloser) *wire {
	return &wire{near: near, far: far, gone: make(chan struct{})}
}

// Close implements [io.Closer].
func (w *wire) Close() error {
	w.once.Do(func() {
		close(w.gone)
		_ = w.near.Close()
		_ = w.far.Close()
	})
	return nil
}

// maxHeld is how many pieces a network holds for one direction.
const maxHeld = 1 << 12

// carry brings what read says to dst, and at last the end.
func (w *wire) carry(work *sync.WaitGroup, read func() ([]byte, error), dst io.WriteCloser, gates ...*gate) {
	held := make(chan []byte, maxHeld)
	work.Go(func() {
		defer close(held)
		for {
			piece, err := read()
			if err != nil {
				return
			}
			select {
			case held <- piece:
			case <-w.gone:
				return
			}
		}
	})
	work.Go(func() {
		for piece := range held {
			if !w.pass(gates) {
				return
			}
			if _, err := dst.Write(piece); err != nil {
				break
			}
		}
		for range held { // nobody is there to read it
		}
		if w.pass(gates) {
			_ = dst.Close()
		}
	})
}

func (w *wire) pass(gates []*gate) bool {
	for _, g := range gates {
		if !g.pass(w.gone) {
			return false
		}
	}
	return true
}

// pieces reads what comes.
func pieces(r io.Reader) func() ([]byte, error) {
	buf := make([]byte, 1<<15)
	return func() ([]byte, error) {
		n, err := r.Read(buf)
		return bytes.Clone(buf[:n]), err
	}
}

// frames reads the head of an upgrade, then frame after frame, which mangle may
// change.
func frames(r io.Reader, mangle func(contract.FrameType, []byte) []byte) func() ([]byte, error) {
	in, head := bufio.NewReader(r), false
	return func() ([]byte, error) {
		var out bytes.Buffer
		if !head {
			head = true
			for {
				line, err := in.ReadBytes('\n')
				if err != nil {
					return nil, err
				}
				out.Write(line)
				if len(line) <= len("\r\n") {
					return out.Bytes(), nil
				}
			}
		}
		kind, body, err := contract.ReadFrame(in)
		if err != nil {
			return nil, err
		}
		if mangle != nil {
			body = mangle(kind, body)
		}
		err = contract.WriteFrame(&out, kind, body)
		return out.Bytes(), err
	}
}

// ends are connections that come to their end together.
type ends struct {
	mu  sync.Mutex
	all []io.Closer
}

func (e *ends) add(c io.Closer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, c)
}

func (e *ends) cut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.all {
		_ = c.Close()
	}
	e.all = nil
}

// doorway is a listener without a socket.
type doorway struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newDoorway() *doorway { return &doorway{conns: make(chan net.Conn), done: make(chan struct{})} }

// Accept implements [net.Listener].
func (d *doorway) Accept() (net.Conn, error) {
	select {
	case c := <-d.conns:
		return c, nil
	case <-d.done:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (d *doorway) Close() error {
	d.once.Do(func() { close(d.done) })
	return nil
}

// Addr implements [net.Listener].
func (d *doorway) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// enter hands a connection to whoever accepts; false if nobody does any more.
func (d *doorway) enter(ctx context.Context, c net.Conn) bool {
	select {
	case d.conns <- c:
		return true
	case <-d.done:
	case <-ctx.Done():
	}
	return false
}
