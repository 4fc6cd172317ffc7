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

// ownGateway is the gateway on the machine of a control plane, which is not ready without it.
type ownGateway struct {
	node      string
	instance  gateway.Instance
	snapshots *snapshot.Store
	// configured is set once the gateway has had its configuration. It serves with that from
	// then on, and for as long as its port is open, whether it has a stream or not: streams
	// end when the key of a token does, and come back. That one is away, nodes say.
	configured atomic.Bool
}

// missing says what the gateway still needs to serve, "" if it serves.
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
