package sidecar_test

import (
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy/proxytemplate"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/scraping"
	"github.com/meshgate/meshgate/xds/selection"
)

// scraped gives a mesh metrics with a configuration.
func scraped(m *mesh.Mesh, conf map[string]any) *mesh.Mesh {
	m.Metrics = &mesh.Metrics{EnabledBackend: "p", Backends: []mesh.MetricsBackend{{Name: "p", Type: mesh.Prometheus, Conf: conf}}}
	mesh.Meshes.Document.Default(m)
	return m
}

// ofMetrics returns the listener at which a proxy is scraped, nil if there is none.
func ofMetrics(t *testing.T, w *world, name string) *listenerv3.Listener {
	t.Helper()
	r := w.planner.Set(name).Get(resource.Listener, scraping.Listener)
	if r == nil {
		return nil
	}
	return load(t, r, new(listenerv3.Listener))
}

// unscraped are the failures about the metrics of a proxy.
func unscraped(w *world, name string) (out []string) {
	for _, f := range w.planner.Failures(name) {
		if f.Cell == scraping.Listener {
			out = append(out, f.Err.Error())
		}
	}
	return out
}

// proxies has a world with one proxy, which may be changed.
func scrapedWorld(t *testing.T, m *mesh.Mesh, change func(*mesh.Networking)) *world {
	t.Helper()
	w := newWorld(t)
	d := dataplane("10.0.0.1", "web", "http", "backend")
	change(d.Networking)
	w.put(mesh.Meshes, "", meshName, m)
	w.put(mesh.Dataplanes, meshName, "web-1", d)
	w.settle()
	w.planner.Join("web-1")
	w.settle()
	return w
}

// TestMetricsGiveWay: nothing of the proxy is left out for its metrics, whatever else listens at
// their address, and they are there again when it is gone.
func TestMetricsGiveWay(t *testing.T) {
	at := func(port uint32) map[string]any { return map[string]any{"port": float64(port)} }
	for name, tt := range map[string]struct {
		conf   map[string]any
		change func(*mesh.Networking)
		why    string
	}{
		"nothing else":           {nil, func(*mesh.Networking) {}, ""},
		"an inbound":             {at(8080), func(*mesh.Networking) {}, "metrics cannot be scraped: another inbound listens on 10.0.0.1:8080"},
		"an outbound":            {at(10001), func(n *mesh.Networking) { n.Outbound[0].Address = "10.0.0.1" }, "metrics cannot be scraped: an outbound listens on 10.0.0.1:10001"},
		"an outbound elsewhere":  {at(10001), func(*mesh.Networking) {}, ""},
		"an outbound everywhere": {at(10001), func(n *mesh.Networking) { n.Address = "proxy.example.test" }, "metrics cannot be scraped: an outbound listens on 0.0.0.0:10001"},
		"the workload":           {at(9080), func(n *mesh.Networking) { n.Address = "proxy.example.test" }, "metrics cannot be scraped: 0.0.0.0:9080 is the workload's own port"},
		"an application": {map[string]any{"port": 7000.0, "aggregate": []any{map[string]any{"name": "a", "port": 7000.0}}}, func(n *mesh.Networking) { n.Address = "127.0.0.1" },
			"metrics cannot be scraped: 127.0.0.1:7000 is the workload's own port"},
		"the administration": {at(9901), func(n *mesh.Networking) { n.Address, n.Admin = "127.0.0.1", &mesh.Admin{Port: 9901} }, "metrics cannot be scraped: 127.0.0.1:9901 is for the administration of the proxy"},
		"redirected connections": {at(15001), func(n *mesh.Networking) {
			n.TransparentProxying = &mesh.TransparentProxying{RedirectPortOutbound: 15001}
		}, "metrics cannot be scraped: connections are redirected to port 15001"},
		"other redirected connections": {at(15006), func(n *mesh.Networking) {
			n.TransparentProxying = &mesh.TransparentProxying{RedirectPortOutbound: 15001, RedirectPortInbound: 15006}
		}, "metrics cannot be scraped: connections are redirected to port 15006"},
	} {
		t.Run(name, func(t *testing.T) {
			w := scrapedWorld(t, scraped(&mesh.Mesh{}, tt.conf), tt.change)
			listener, why := ofMetrics(t, w, "web-1"), unscraped(w, "web-1")
			if (listener == nil) != (tt.why != "") || strings.Join(why, ";") != tt.why {
				t.Errorf("listener %v, %q", listener != nil, why)
			}
			w.put(mesh.Meshes, "", meshName, scraped(&mesh.Mesh{}, at(1234)))
			w.settle()
			if ofMetrics(t, w, "web-1") == nil || unscraped(w, "web-1") != nil {
				t.Errorf("at another port: %q", unscraped(w, "web-1"))
			}
		})
	}
}

// TestMetricsGiveWayToTemplates: a listener that a template adds stands where the metrics were, and
// no template changes the listener of the metrics or what tells the agent about it.
func TestMetricsGiveWayToTemplates(t *testing.T) {
	w := scrapedWorld(t, scraped(&mesh.Mesh{}, nil), func(*mesh.Networking) {})
	template := func(port string) string {
		return `
type: ProxyTemplate
mesh: demo
name: extra
selectors: [{match: {mesh.io/service: "*"}}]
conf:
  imports: [default-proxy]
  resources:
  - name: extra
    version: v1
    resource: |
      "@type": type.googleapis.com/envoy.config.listener.v3.Listener
      name: extra
      address: {socket_address: {address: 10.0.0.1, port_value: ` + port + `}}
      filterChains:
      - filters:
        - name: envoy.filters.network.tcp_proxy
          typedConfig:
            "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
            statPrefix: extra
            cluster: backend
  modifications:
  - listener: {operation: patch, value: "perConnectionBufferLimitBytes: 11111"}
  - cluster: {operation: patch, value: "connectTimeout: 7s"}
`
	}
	before := ofMetrics(t, w, "web-1")
	told := w.planner.Set("web-1").Get(resource.Cluster, scraping.Told)
	w.apply(t, template("7777"))
	w.settle()
	if got := ofMetrics(t, w, "web-1"); !proto.Equal(before, got) || w.planner.Set("web-1").Get(resource.Cluster, scraping.Told).Version != told.Version {
		t.Errorf("the listener was %v and is %v", before, got)
	}
	if w.planner.Set("web-1").Get(resource.Listener, "extra") == nil {
		t.Fatalf("the template has no effect: %v", w.planner.Failures("web-1"))
	}
	w.apply(t, template("5670"))
	w.settle()
	if why := unscraped(w, "web-1"); ofMetrics(t, w, "web-1") != nil || len(why) != 1 || !strings.Contains(why[0], "ProxyTemplate extra makes extra listen there") {
		t.Errorf("%q", why)
	}
	if w.planner.Set("web-1").Get(resource.Listener, "extra") == nil {
		t.Error("the listener of the template is missing")
	}
	w.drop(proxytemplate.Kind, "extra")
	w.settle()
	if ofMetrics(t, w, "web-1") == nil {
		t.Error("the metrics are not there again")
	}
}

// TestMetricsOfDataplanes: a dataplane says something else than its mesh, and what cannot be shown
// is said.
func TestMetricsOfDataplanes(t *testing.T) {
	w := scrapedWorld(t, scraped(&mesh.Mesh{}, map[string]any{"aggregate": []any{map[string]any{"name": "a"}}}), func(*mesh.Networking) {})
	if why := unscraped(w, "web-1"); len(why) != 1 || !strings.Contains(why[0], `the metrics of the application "a" are left out`) {
		t.Errorf("%q", why)
	}
	d := dataplane("10.0.0.1", "web", "http", "backend")
	d.Metrics = &mesh.MetricsBackend{Type: mesh.Prometheus, Conf: map[string]any{"port": 1234.0, "path": "/own", "aggregate": []any{map[string]any{"name": "a", "port": 80.0}}, "envoy": map[string]any{"usedOnly": true}}}
	w.put(mesh.Dataplanes, meshName, "web-1", d)
	w.settle()
	set := w.planner.Set("web-1")
	table := load(t, set.Get(resource.Route, scraping.Listener), new(routev3.RouteConfiguration))
	told, err := scraping.Read(set.Get(resource.Cluster, scraping.Told).Body)
	if err != nil {
		t.Fatal(err)
	}
	routes := table.GetVirtualHosts()[0].GetRoutes()
	if len(unscraped(w, "web-1")) > 0 || ofMetrics(t, w, "web-1").GetAddress().GetSocketAddress().GetPortValue() != 1234 || len(routes) != 1 ||
		routes[0].GetMatch().GetPath() != "/own" || !told.UsedOnly || len(told.Applications) != 1 || told.Applications[0].At.String() != "127.0.0.1:80" {
		t.Errorf("%v %v %+v", unscraped(w, "web-1"), routes, told)
	}
	d.Metrics.Conf = map[string]any{"port": "wrong"} // stored before it was checked
	w.put(mesh.Dataplanes, meshName, "web-1", d)
	w.settle()
	if why := unscraped(w, "web-1"); ofMetrics(t, w, "web-1") != nil || len(why) != 1 || !strings.Contains(why[0], "conf.port: port must be in the range") {
		t.Errorf("%q", why)
	}
}

// chainsOf names the chains of the listener of the metrics.
func chainsOf(l *listenerv3.Listener) (out []string) {
	for _, c := range l.GetFilterChains() {
		name := c.GetName()
		for _, p := range c.GetFilterChainMatch().GetSourcePrefixRanges() {
			name += " " + p.GetAddressPrefix()
		}
		out = append(out, name)
	}
	return out
}

// TestMetricsAreProtected: under mutual TLS nobody without a certificate is served but the machine
// itself, also in a mesh that lets others in, unless the metrics are without it.
func TestMetricsAreProtected(t *testing.T) {
	for name, tt := range map[string]struct {
		mode, address string
		conf          map[string]any
		want          []string
	}{
		"strict":             {mesh.ModeStrict, "10.0.0.1", nil, []string{"plain 10.0.0.1", "mesh"}},
		"permissive":         {mesh.ModePermissive, "10.0.0.1", nil, []string{"plain 10.0.0.1", "mesh"}},
		"IPv6":               {mesh.ModeStrict, "2001:db8::1", nil, []string{"plain 2001:db8::1", "mesh"}},
		"a name":             {mesh.ModeStrict, "proxy.example.test", nil, []string{"plain 127.0.0.0 ::1", "mesh"}},
		"without mutual TLS": {mesh.ModeStrict, "10.0.0.1", map[string]any{"skipMTLS": true}, []string{"plain"}},
		"disabled":           {mesh.ModeStrict, "10.0.0.1", map[string]any{"tls": map[string]any{"mode": "disabled"}}, []string{"plain"}},
	} {
		w := scrapedWorld(t, scraped(mtls(tt.mode), tt.conf), func(n *mesh.Networking) { n.Address = tt.address })
		w.put(mesh.Trusts, meshName, meshName, trust("root"))
		w.settle()
		if got := chainsOf(ofMetrics(t, w, "web-1")); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestPoliciesOfMetrics: a permission for the service of the metrics is chosen for their listener,
// at the place that inspection shows.
func TestPoliciesOfMetrics(t *testing.T) {
	w := scrapedWorld(t, scraped(mtls(mesh.ModeStrict), nil), func(*mesh.Networking) {})
	table := func() string {
		return string(w.planner.Set("web-1").Get(resource.Route, scraping.Listener).Body)
	}
	w.put(trafficpermission.Kind, meshName, "metrics", permission("prometheus", "dataplane-metrics"))
	w.settle()
	if !strings.Contains(table(), "spiffe://demo/prometheus") {
		t.Errorf("%q", table())
	}
	d, _ := w.planner.State().Dataplane("web-1")
	var found *selection.Place
	for _, p := range selection.Of(w.planner.State(), w.policies, d) {
		if p.Metrics {
			found = &p
		}
	}
	if found == nil || found.Name != "10.0.0.1:5670:5670" || !slices.ContainsFunc(found.Matches, func(m selection.Match) bool {
		return slices.ContainsFunc(m.Chosen.Policies, func(p *view.Policy) bool { return p.Name == "metrics" })
	}) {
		t.Errorf("%+v", found)
	}
	w.drop(trafficpermission.Kind, "metrics")
	w.settle()
	if strings.Contains(table(), "spiffe://demo/prometheus") {
		t.Error("a permission that is gone is still there")
	}
}
