package relay_test

import (
	"os"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/xds/relay"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/scraping"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// showing is what a page of metrics consists of, as a resource.
func showing(t *testing.T, version string, s scraping.Settings) *resource.Resource {
	t.Helper()
	c, err := s.Describe()
	if err != nil {
		t.Fatal(err)
	}
	body, err := proto.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return resource.Received(resource.Cluster, scraping.Told, version, body)
}

// TestMetricsAreToldOnceConfirmed: what a page of metrics consists of is told when Envoy has
// confirmed it, from the disk too, once, and so is that there is nothing any more. What cannot be
// read changes nothing.
func TestMetricsAreToldOnceConfirmed(t *testing.T) {
	dir, err := os.MkdirTemp("", "metrics")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	told := make(chan *scraping.Settings, 16)
	shows := func(c *relay.Config) { c.Metrics = func(s *scraping.Settings) { told <- s } }
	p := startPlane(t, "127.0.0.1:0")
	_, stop := startRelayWith(t, dir, p.addr, shows)
	one, two := scraping.Settings{Filter: "a"}, scraping.Settings{UsedOnly: true}
	expect := func(what string, want *scraping.Settings) {
		t.Helper()
		if diff := cmp.Diff(want, <-told); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	rev := p.publish(showing(t, "1", one))
	envoy := local(t, dir, xdstest.Options{})
	defer envoy.Close()
	p.settle(t, rev)
	expect("the first", &one)
	p.settle(t, p.publish(showing(t, "1", one), xdstest.Cluster("other", 0)))
	p.settle(t, p.publish(resource.Received(resource.Cluster, scraping.Told, "bad", nil)))
	p.settle(t, p.publish(showing(t, "2", two)))
	expect("after something else, and what cannot be read", &two)
	stop()
	_, stop = startRelayWith(t, dir, p.addr, shows)
	expect("from the disk", &two)
	again := local(t, dir, xdstest.Options{})
	defer again.Close()
	p.settle(t, p.publish())
	expect("nothing any more", nil)
	stop()
	if len(told) > 0 {
		t.Errorf("told again: %v", <-told)
	}
}

// TestProxyIsWholeWithoutMetrics: the control plane hears that Envoy refuses the listener of the
// metrics, and the proxy is ready.
func TestProxyIsWholeWithoutMetrics(t *testing.T) {
	p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
	rev := p.publish(xdstest.Listener(scraping.Listener, 1000, "r"))
	r, _ := startRelay(t, dir, p.addr)
	var next atomic.Int64
	next.Store(all)
	local(t, dir, xdstest.Options{Reject: func(u resource.TypeURL, names []string) string {
		if u == resource.Listener && len(names) > 0 && next.Add(-1) >= 0 {
			return scraping.Listener + ": cannot bind: Address already in use"
		}
		return ""
	}})
	if got := p.settle(t, rev); len(got.Rejected) != 1 {
		t.Fatalf("%+v", got)
	}
	if err := r.Whole(t.Context(), func(refused map[string]string) { t.Errorf("it lacks %v", refused) }); err != nil {
		t.Error(err)
	}
}
