package revoke

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// network forwards connections to an address until it drops their packets. Neither side is
// told, and no connection is reset.
type network struct {
	net.Listener
	to       string
	dropping atomic.Bool
	work     sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

func newNetwork(t *testing.T, to string) *network {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &network{Listener: ln, to: to}
	n.work.Go(n.accept)
	t.Cleanup(func() {
		_ = ln.Close()
		n.mu.Lock()
		for _, c := range n.conns {
			_ = c.Close()
		}
		n.mu.Unlock()
		n.work.Wait()
	})
	return n
}

func (n *network) accept() {
	for {
		near, err := n.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", n.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		n.mu.Lock()
		n.conns = append(n.conns, near, far)
		n.mu.Unlock()
		n.work.Go(func() { n.carry(near, far) })
		n.work.Go(func() { n.carry(far, near) })
	}
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
	w := newWorld(t, nil)
	name := w.mint("a", false)
	w.mint("b", false)
	var between *network
	w.through = func(address string) string {
		between = newNetwork(t, address)
		return between.Addr().String()
	}
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
