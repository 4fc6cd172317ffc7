package relay_test

import (
	"net"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// TestListenersTakeOverAddresses: with a real Envoy behind an agent, a listener gets the
// address of a removed one, or of one that moves. Nothing is refused.
func TestListenersTakeOverAddresses(t *testing.T) {
	dir, err := os.MkdirTemp("", "over") // short enough for a socket path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	port, other, one := freePort(t), freePort(t), backend(t, "one")
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	p := startPlane(t, "127.0.0.1:0")
	show := func(listeners ...*resource.Resource) {
		t.Helper()
		rev := p.publish(append(listeners, xdstest.Cluster("one", s), xdstest.Endpoints("one", one), xdstest.Routes("r", "one", 0))...)
		if got := p.settle(t, rev); len(got.Rejected) > 0 {
			t.Errorf("refused: %+v", got.Rejected)
		}
	}
	closed := func() bool {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(other)), time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}
	rev := p.publish(xdstest.Cluster("one", s), xdstest.Endpoints("one", one), xdstest.Listener("m", port, "r"), xdstest.Routes("r", "one", 0))
	startRelay(t, dir, p.addr)
	startEnvoy(t, dir)
	p.settle(t, rev)
	untilAnswer(t, client, dir, port, "200 one")
	show(xdstest.Listener("z", port, "r"))
	untilAnswer(t, client, dir, port, "200 one")
	// The listener that takes the address comes first by name; the one that has it moves.
	show(xdstest.Listener("a", port, "r"), xdstest.Listener("z", other, "r"))
	untilAnswer(t, client, dir, port, "200 one")
	untilAnswer(t, client, dir, other, "200 one")
	show(xdstest.Listener("a", port, "r"))
	untilTrue(t, "the other port is closed", closed)
}
