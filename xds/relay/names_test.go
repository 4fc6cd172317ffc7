package relay_test

import (
	"net/netip"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/xds/naming"
	"github.com/meshgate/meshgate/xds/relay"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// named are the host names as a resource.
func named(t *testing.T, version string, table naming.Table) *resource.Resource {
	t.Helper()
	body, err := proto.Marshal(naming.Encode(table))
	if err != nil {
		t.Fatal(err)
	}
	return resource.Received(resource.Cluster, naming.Cluster, version, body)
}

// TestNamesAreToldOnceConfirmed: host names are told when Envoy has confirmed them, from the disk
// too, each table once, and so is that there are none any more.
func TestNamesAreToldOnceConfirmed(t *testing.T) {
	dir, err := os.MkdirTemp("", "names")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	told := make(chan naming.Table, 16)
	listens := func(c *relay.Config) { c.Names = func(t naming.Table) { told <- t } }
	p := startPlane(t, "127.0.0.1:0")
	_, stop := startRelayWith(t, dir, p.addr, listens)
	one := naming.Table{"backend.mesh": netip.MustParseAddr("240.0.0.1")}
	two := naming.Table{"backend.mesh": netip.MustParseAddr("240.0.0.1"), "web.mesh": netip.MustParseAddr("240.0.0.2")}
	rev := p.publish(named(t, "1", one))
	p.responds(t, rev)
	if len(told) > 0 {
		t.Errorf("told before there is an Envoy: %v", <-told)
	}
	expect := func(what string, want naming.Table) {
		t.Helper()
		if diff := cmp.Diff(want, <-told, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	envoy := local(t, dir, xdstest.Options{})
	defer envoy.Close()
	p.settle(t, rev)
	expect("the first", one)
	p.settle(t, p.publish(named(t, "1", one), xdstest.Cluster("other", 0)))
	p.settle(t, p.publish(named(t, "2", two)))
	expect("after something else, and after another name", two)
	stop()
	_, stop = startRelayWith(t, dir, p.addr, listens)
	expect("from the disk", two)
	again := local(t, dir, xdstest.Options{})
	defer again.Close()
	p.settle(t, p.publish())
	expect("none any more", nil)
	stop()
	if len(told) > 0 {
		t.Errorf("told again: %v", <-told)
	}
}
