package revoke

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// network forwards connections until it drops their packets. Neither side is told, and no
// connection is reset.
type network struct {
	dropping atomic.Bool
	work     sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

func newNetwork(t *testing.T) *network {
	n := &network{}
	t.Cleanup(func() {
		n.mu.Lock()
		for _, c := range n.conns {
			_ = c.Close()
		}
		n.mu.Unlock()
		n.work.Wait()
	})
	return n
}

// to returns a connection that leads to another one through the network.
func (n *network) to(server net.Conn) net.Conn {
	filter, near := net.Pipe()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns = append(n.conns, near, server)
	n.work.Go(func() { n.carry(near, server) })
	n.work.Go(func() { n.carry(server, near) })
	return filter
}

// carry moves bytes. While packets are dropped, data is lost for good, and so is the end of
// the connection.
func (n *network) carry(to, from net.Conn) {
	buf, lost := make([]byte, 32<<10), false
	for {
		got, err := from.Read(buf)
		lost = lost || n.dropping.Load()
		if lost {
			if err != nil {
				return
			}
			continue
		}
		if _, werr := to.Write(buf[:got]); werr != nil || err != nil {
			_ = to.Close()
			return
		}
	}
}

// The packets between a filter and the control plane are dropped without notice. DELETE is
// answered when the filter's lease has ended. From then on the filter does not accept the
// token, and when packets pass again it learns why.
func TestDroppedPackets(t *testing.T) {
	t.Parallel()
	alone(t, droppedPackets)
}

func droppedPackets(t *testing.T, w *world) {
	name := w.mint("a", false)
	w.mint("b", false)
	between := newNetwork(t)
	w.through = between.to
	filter := w.realFilter()
	for _, token := range []string{"a", "b"} {
		if a := check(filter, token); a != contract.Found {
			t.Fatalf("%s: answer %d", token, a)
		}
	}
	between.dropping.Store(true)
	if err := w.delete(name); err != nil {
		t.Fatal(err)
	}
	if a := check(filter, "a"); a == contract.Found {
		t.Error("accepted after its revocation was confirmed")
	}
	if a := check(filter, "b"); a == contract.Found {
		t.Error("accepted without a lease, from memory")
	}
	between.dropping.Store(false)
	until(t, "the filter is back", func() bool { return check(filter, "b") == contract.Found })
	if a := check(filter, "a"); a != contract.Revoked {
		t.Errorf("answer %d", a)
	}
}
