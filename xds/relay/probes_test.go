package relay_test

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/xds/probing"
	"github.com/meshgate/meshgate/xds/relay"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// probes are what is probed, as a resource.
func probes(t *testing.T, version string, p ...probing.Probe) *resource.Resource {
	t.Helper()
	c, err := probing.Describe(p)
	if err != nil {
		t.Fatal(err)
	}
	body, err := proto.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return resource.Received(resource.Cluster, probing.Told, version, body)
}

// TestProbesAreToldOnceConfirmed: what is probed is told when Envoy has confirmed it, from the disk
// too, once, and so is that there is nothing any more. What cannot be read changes nothing.
func TestProbesAreToldOnceConfirmed(t *testing.T) {
	dir, err := os.MkdirTemp("", "probes")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	told := make(chan []probing.Probe, 16)
	hears := func(c *relay.Config) { c.Probes = func(p []probing.Probe) { told <- p } }
	p := startPlane(t, "127.0.0.1:0")
	_, stop := startRelayWith(t, dir, p.addr, hears)
	one := probing.Probe{
		Inbound: probing.Inbound{Port: 80}, At: netip.MustParseAddrPort("127.0.0.1:8080"), Interval: time.Second, Timeout: time.Second, Unhealthy: 1, Healthy: 1,
	}
	two := one
	two.Ready = true
	expect := func(what string, want ...probing.Probe) {
		t.Helper()
		if diff := cmp.Diff(want, <-told, cmpopts.EquateComparable(netip.AddrPort{}, netip.Addr{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	rev := p.publish(probes(t, "1", one))
	envoy := local(t, dir, xdstest.Options{})
	defer envoy.Close()
	p.settle(t, rev)
	expect("the first", one)
	p.settle(t, p.publish(probes(t, "1", one), xdstest.Cluster("other", 0)))
	p.settle(t, p.publish(resource.Received(resource.Cluster, probing.Told, "bad", nil)))
	p.settle(t, p.publish(probes(t, "2", two)))
	expect("after something else, and what cannot be read", two)
	stop()
	_, stop = startRelayWith(t, dir, p.addr, hears)
	expect("from the disk", two)
	again := local(t, dir, xdstest.Options{})
	defer again.Close()
	p.settle(t, p.publish())
	expect("nothing any more")
	stop()
	if len(told) > 0 {
		t.Errorf("told again: %v", <-told)
	}
}
