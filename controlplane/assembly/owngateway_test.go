package assembly

import (
	"net"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// TestGatewayServesWithoutItsStream: a missing stream, which comes back in a moment, must not
// make the control plane unready. Taking it out of service would end a gateway that serves.
func TestGatewayServesWithoutItsStream(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	port := listener.Addr().(*net.TCPAddr).Port
	snapshots := snapshot.New()
	g := &ownGateway{node: "cp/default/g", instance: gateway.Instance{Listen: "127.0.0.1", HTTPPort: port}, snapshots: snapshots}
	const unconfigured, closed = "the gateway has not acknowledged its configuration", "the gateway's port is not open yet"
	says := func(when, want string) {
		t.Helper()
		if got := g.missing(); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	says("before it came", unconfigured)
	snapshots.Publish(map[string]*resource.Set{g.node: resource.NewSet(nil, nil)}, 1)
	sub := snapshots.Subscribe(g.node)
	says("before it has its configuration", unconfigured)
	sub.Confirm(sub.State())
	says("with its configuration", "")
	sub.Close()
	says("while it is away", "")
	again := snapshots.Subscribe(g.node)
	defer again.Close()
	says("back, before it says what it has", "")
	_ = listener.Close()
	says("with its port closed", closed)
}
