package relay_test

import (
	"slices"
	"testing"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// A correction reaches the relay even if Envoy is gone, however much was sent since, and even
// if Envoy died without an answer. Otherwise an Envoy that dies of its configuration would get
// the same one at each start. Nothing is confirmed meanwhile.
func TestCorrectionReachesARelayWhoseEnvoyIsGone(t *testing.T) {
	for name, dies := range map[string]bool{"it is not there": false, "it dies without an answer": true} {
		t.Run(name, func(t *testing.T) {
			p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
			first := p.publish(clusterA, endA, listener, routesA)
			r, _ := startRelay(t, dir, p.addr)
			within(t, "the relay is ready", r.Ready())
			change := func(n int) {
				for i := range n {
					p.responds(t, p.publish(clusterA, xdstest.Endpoints("a", 5000+n+i), listener, routesA))
				}
			}
			if dies {
				c := local(t, dir, xdstest.Options{Relay: true})
				c.WaitFor(t, "everything", func(v xdstest.View) bool { return len(v.Names(resource.Listener)) == 1 })
				p.settle(t, first)
				c.Close()
				hangs := make(chan struct{})
				conn := socket(t, dir)
				c = localOn(t, conn, xdstest.Options{Relay: true, Reject: func(resource.TypeURL, []string) string { <-hangs; return "" }})
				change(4)
				_ = conn.Close()
				close(hangs)
				c.Close()
			}
			change(12)
			mended := xdstest.Listener("in", 1234, "r")
			rev := p.publish(clusterA, endA, mended, routesA)
			p.responds(t, rev)
			for revision := first + 1; revision <= rev; revision++ {
				if got := p.snaps.Progress(revision); len(got.Acknowledged) > 0 {
					t.Fatalf("revision %d of %d is confirmed without an Envoy: %+v", revision, rev, got)
				}
			}
			c := local(t, dir, xdstest.Options{Relay: true})
			c.WaitFor(t, "the correction", func(v xdstest.View) bool {
				return slices.Equal(v.Body(resource.Listener, "in"), mended.Body)
			})
			if got := p.settle(t, rev); len(got.Acknowledged) != 1 {
				t.Errorf("progress %+v", got)
			}
		})
	}
}
