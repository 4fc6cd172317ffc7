package relay_test

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"github.com/meshgate/meshgate/xds/relay"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// TestPart: a relay that has parted has no stream to the control plane and opens none, and Envoy is
// served what it has.
func TestPart(t *testing.T) {
	p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
	rev := p.publish(clusterA, endA, listener, routesA)
	var dials atomic.Int32
	r, _ := startRelayWith(t, dir, p.addr, func(c *relay.Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context) (*grpc.ClientConn, error) { dials.Add(1); return dial(ctx) }
	})
	c := local(t, dir, xdstest.Options{})
	c.Request(resource.Route).Equals(t, routesA)
	p.settle(t, rev)
	before := dials.Load()
	r.Part(t.Context())
	if r.Status().Connected {
		t.Error("it is connected")
	}
	for moved := p.snaps.Moved(); len(p.snaps.Progress(rev).Acknowledged) > 0; moved = p.snaps.Moved() {
		within(t, "the end of the stream", moved)
	}
	p.publish(clusterA, endA, listener, routesB)
	r.Part(t.Context())
	local(t, dir, xdstest.Options{}).Request(resource.Route).Equals(t, routesA)
	if n := dials.Load(); n != before {
		t.Errorf("it has dialled %d times more", n-before)
	}
}
