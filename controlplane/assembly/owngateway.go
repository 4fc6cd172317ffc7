package assembly

import (
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// ownGateway is the gateway on the machine of a control plane. The control plane is not ready
// without it.
type ownGateway struct {
	node      string
	instance  gateway.Instance
	snapshots *snapshot.Store
	// configured is set once the gateway has acknowledged its configuration. From then on the
	// gateway counts as serving as long as its port is open, even without a stream: streams
	// end when the key of a token does, and come back. The list of nodes shows such a gateway
	// as away.
	configured atomic.Bool
}

// missing returns what the gateway still needs to serve, or "" if it serves.
func (g *ownGateway) missing() string {
	if !g.configured.Load() {
		if !slices.Contains(g.snapshots.Progress(0).Acknowledged, g.node) {
			return "the gateway has not acknowledged its configuration"
		}
		g.configured.Store(true)
	}
	address := net.JoinHostPort(httpkit.Loopback(g.instance.Listen), strconv.Itoa(g.instance.HTTPPort))
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return "the gateway's port is not open yet"
	}
	_ = conn.Close()
	return ""
}
