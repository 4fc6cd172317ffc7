package framework

import (
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

// Road is a stretch of network between the processes of a test: a port behind
// which there is another one. It can be made slow, and it can be blocked: then
// nothing arrives any more, and nobody is told.
type Road struct {
	Port int

	mu      sync.Mutex
	to      int
	changed chan struct{} // closed and replaced at each change
	blocked bool
	delay   time.Duration
	conns   map[net.Conn]bool
	closed  bool
	done    sync.WaitGroup
}

// StartRoad opens one to a port.
func StartRoad(to int) *Road {
	r := &Road{Port: FreePorts(1)[0], to: to, changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", r.Port))
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	r.done.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.done.Go(func() { r.carry(conn) })
		}
	})
	ginkgo.DeferCleanup(func() {
		_ = l.Close()
		r.set(func() { r.closed = true })
		r.mu.Lock()
		for conn := range r.conns {
			_ = conn.Close()
		}
		r.mu.Unlock()
		r.done.Wait()
	})
	return r
}

// Block lets nothing through, on open connections and on new ones.
func (r *Road) Block() { r.set(func() { r.blocked = true }) }

// Open lets through what waits and what comes.
func (r *Road) Open() { r.set(func() { r.blocked, r.delay = false, 0 }) }

// Slow lets everything arrive that much later.
func (r *Road) Slow(delay time.Duration) { r.set(func() { r.delay = delay }) }

// Lead leads to another port from now on. What is open ends.
func (r *Road) Lead(to int) {
	r.set(func() { r.to = to })
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.conns {
		_ = conn.Close()
	}
}

func (r *Road) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	close(r.changed)
	r.changed = make(chan struct{})
}

// pass waits until what came at a time may go on.
func (r *Road) pass(came time.Time) error {
	for {
		r.mu.Lock()
		blocked, closed, changed, wait := r.blocked, r.closed, r.changed, time.Until(came.Add(r.delay))
		r.mu.Unlock()
		switch {
		case closed:
			return net.ErrClosed
		case blocked:
			<-changed
		case wait <= 0:
			return nil
		default:
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-changed:
				timer.Stop()
			}
		}
	}
}

func (r *Road) carry(near net.Conn) {
	defer func() { _ = near.Close() }()
	if !r.keep(near) || r.pass(time.Now()) != nil {
		return
	}
	r.mu.Lock()
	to := r.to
	r.mu.Unlock()
	far, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(to)))
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	if !r.keep(far) {
		return
	}
	defer r.forget(near, far)
	var both sync.WaitGroup
	both.Go(func() { r.lane(far, near) })
	both.Go(func() { r.lane(near, far) })
	both.Wait()
}

// keep remembers a connection, to end it with the test.
func (r *Road) keep(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.conns[conn] = true
	}
	return !r.closed
}

func (r *Road) forget(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range conns {
		delete(r.conns, conn)
	}
}

// lane carries one direction. The end of a stream takes the road, too.
func (r *Road) lane(to, from net.Conn) {
	type parcel struct {
		came time.Time
		data []byte
		err  error
	}
	parcels := make(chan parcel, 1000)
	r.done.Go(func() {
		defer close(parcels)
		for {
			data := make([]byte, 32<<10)
			n, err := from.Read(data)
			parcels <- parcel{time.Now(), data[:n], err}
			if err != nil {
				return
			}
		}
	})
	ended := false
	for p := range parcels {
		if ended || r.pass(p.came) != nil {
			ended = true
			continue
		}
		if _, err := to.Write(p.data); err != nil {
			ended = true
		}
		if p.err != nil {
			ended = true
		}
		if ended { // the other side learns of it by the end of its connection
			_ = to.Close()
			_ = from.Close()
		}
	}
}
