package sidecar_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/scraping"
)

const probeListener = "probe:listener"

// TestProbesGiveWay: nothing of the proxy is left out for its probes. They are answered rather than
// metrics shown.
func TestProbesGiveWay(t *testing.T) {
	for name, tt := range map[string]struct {
		change       func(*mesh.Networking)
		scraped      float64
		why, metrics string
	}{
		"nothing else": {func(*mesh.Networking) {}, 1234, "", ""},
		"metrics":      {func(*mesh.Networking) {}, 9000, "", "metrics cannot be scraped: probes are answered at 10.0.0.1:9000"},
		"an inbound":   {func(n *mesh.Networking) { n.Inbound[0].Port = 9000 }, 1234, "probes are not answered: an inbound listens on 10.0.0.1:9000", ""},
		"an outbound everywhere": {func(n *mesh.Networking) { n.Address, n.Outbound[0].Port = "proxy.example.test", 9000 }, 1234,
			"probes are not answered: an outbound listens on 0.0.0.0:9000", ""},
		"redirected connections": {func(n *mesh.Networking) {
			n.TransparentProxying = &mesh.TransparentProxying{RedirectPortOutbound: 9000}
		}, 1234, "probes are not answered: connections are redirected to port 9000", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := scrapedWorld(t, scraped(&mesh.Mesh{}, map[string]any{"port": tt.scraped}), func(*mesh.Networking) {})
			d := dataplane("10.0.0.1", "web", "http", "backend")
			tt.change(d.Networking)
			d.Probes = &mesh.Probes{Port: 9000, Endpoints: []mesh.ProbeEndpoint{{InboundPort: 9080, InboundPath: "/a", Path: "/b"}}}
			w.put(mesh.Dataplanes, meshName, "web-1", d)
			w.settle()
			answered := w.planner.Set("web-1").Get(resource.Listener, probeListener) != nil
			if why := strings.Join(failuresAt(w, probeListener), ";"); answered != (tt.why == "") || why != tt.why {
				t.Errorf("answered %v, %q", answered, why)
			}
			if why := strings.Join(failuresAt(w, scraping.Listener), ";"); why != tt.metrics {
				t.Errorf("metrics: %q", why)
			}
		})
	}
}

// TestProbesOfWorkloadsComeFirst: a port that one inbound has and the workload of another is the
// workload's.
func TestProbesOfWorkloadsComeFirst(t *testing.T) {
	in := []*mesh.Inbound{{Port: 8080, ServicePort: 9090}, {Port: 80, ServicePort: 8080}, {Port: 81}}
	var got []int
	for _, port := range []uint32{8080, 9090, 80, 81, 82} {
		got = append(got, mesh.Probed(in, port))
	}
	if !slices.Equal(got, []int{1, 0, 1, 2, -1}) {
		t.Errorf("%v", got)
	}
}
