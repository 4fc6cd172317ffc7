package relay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/xds/relay"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestAResponseThatIsTooLargeIsReported: a control plane that lets the proxy in and then sends more
// than it takes is reported, and served from as soon as it does so no more.
func TestAResponseThatIsTooLargeIsReported(t *testing.T) {
	p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
	p.publish(resource.New(resource.Listener, listener.Name, []byte(strings.Repeat("x", server.MaxResponse))))
	reported := make(chan error, 1000)
	r, _ := startRelayWith(t, dir, p.addr, func(c *relay.Config) { c.Report = func(err error) { reported <- err } })
	for late := time.After(patience); ; {
		select {
		case err := <-reported:
			if status.Code(err) != codes.ResourceExhausted {
				continue
			}
		case <-late:
			t.Fatal("nothing is reported")
		}
		break
	}
	p.publish(clusterA, endA, listener, routesA)
	within(t, "the relay is ready", r.Ready())
}
