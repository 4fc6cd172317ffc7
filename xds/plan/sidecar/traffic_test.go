package sidecar_test

import (
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	upstreamsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/timeout"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
	"github.com/meshgate/meshgate/xds/resource"
)

// joined makes proxies join, plans them, and returns the set of the last one.
func (w *world) joined(names ...string) *resource.Set {
	w.t.Helper()
	w.settle()
	for _, name := range names {
		if !w.planner.Join(name) {
			w.t.Fatalf("%s did not join", name)
		}
	}
	w.settle()
	return w.planner.Set(names[len(names)-1])
}

// untimed removes the timeout policy that every new mesh has.
func (w *world) untimed() {
	for _, d := range all.Defaults() {
		if d.Kind == timeout.Kind {
			w.drop(d.Kind, d.Prefix+meshName)
		}
	}
}

// TestNoLimitWithoutTimeout: Envoy's default limit of 15 s for a response would cut streams.
func TestNoLimitWithoutTimeout(t *testing.T) {
	w := newWorld(t)
	pair("http")(w)
	w.untimed()
	w.raw(`
type: TrafficRoute
mesh: demo
name: rules
sources: [{match: {mesh.io/service: "*"}}]
destinations: [{match: {mesh.io/service: backend}}]
conf:
  destination: {mesh.io/service: backend}
  http:
  - match: {path: {prefix: /api}}
    destination: {mesh.io/service: backend, version: v1}
`)
	set := w.joined(both...)
	host := hostOf(t, set, "outbound:127.0.0.1:10001")
	if len(host.GetRoutes()) != 2 {
		t.Fatalf("routes are %v", host.GetRoutes())
	}
	for _, r := range host.GetRoutes() {
		if limit := r.GetRoute().GetTimeout(); limit == nil || limit.AsDuration() != 0 {
			t.Errorf("%v is limited to %v", r.GetMatch(), limit)
		}
	}
}

// cluster decodes a cluster of a set.
func cluster(t *testing.T, set *resource.Set, name string) *clusterv3.Cluster {
	t.Helper()
	return load(t, set.Get(resource.Cluster, name), new(clusterv3.Cluster))
}

// led returns the only cluster to which all requests of an outbound go.
func led(t *testing.T, set *resource.Set, listener string) string {
	t.Helper()
	routes := hostOf(t, set, listener).GetRoutes()
	if len(routes) != 1 || routes[0].GetRoute().GetCluster() == "" {
		t.Fatalf("%s leads by %v", listener, routes)
	}
	return routes[0].GetRoute().GetCluster()
}

// balanced routes all calls of a service to another one, with a load balancer.
func balanced(destination, to string, lb trafficroute.LoadBalancer) *trafficroute.Spec {
	return &trafficroute.Spec{Connection: connection(mesh.AnyValue, destination), Conf: &trafficroute.Conf{
		Destination: mesh.Tags{mesh.TagService: to}, LoadBalancer: &lb,
	}}
}

// TestTwoSettingsTwoClusters: one outbound leads to backend, and one to front, whose requests
// also go to backend. They want different load balancers. Whichever is listed first, both get
// theirs, and the outbound to backend keeps the cluster with that name.
func TestTwoSettingsTwoClusters(t *testing.T) {
	least, random := trafficroute.LoadBalancer{LeastRequest: &trafficroute.LeastRequest{ChoiceCount: 4}}, trafficroute.LoadBalancer{Random: &struct{}{}}
	for _, protocol := range []string{"http", "tcp"} {
		for _, order := range [][]string{{"backend", "front"}, {"front", "backend"}} {
			t.Run(protocol+" "+strings.Join(order, " "), func(t *testing.T) {
				w := newWorld(t)
				w.put(mesh.Dataplanes, meshName, "backend-1", dataplane("127.0.0.2", "backend", protocol))
				web := dataplane("127.0.0.3", "web", "http", order...)
				w.put(mesh.Dataplanes, meshName, "web-1", web)
				w.put(trafficroute.Kind, meshName, "direct", balanced("backend", "backend", least))
				w.put(trafficroute.Kind, meshName, "front", balanced("front", "backend", random))
				set := w.joined("web-1")
				held(t, set, 2)
				if protocol == "http" {
					ports := map[string]string{order[0]: "outbound:127.0.0.1:10001", order[1]: "outbound:127.0.0.1:10002"}
					if name := led(t, set, ports["backend"]); name != "backend" || cluster(t, set, name).GetLbPolicy() != clusterv3.Cluster_LEAST_REQUEST {
						t.Errorf("backend is reached by %s, %v", name, cluster(t, set, name).GetLbPolicy())
					}
					if name := led(t, set, ports["front"]); cluster(t, set, name).GetLbPolicy() != clusterv3.Cluster_RANDOM {
						t.Errorf("front is reached by %s, %v", name, cluster(t, set, name).GetLbPolicy())
					}
				}
				validate(t, set)
				// Equal settings need no second cluster; different settings need one again.
				w.put(trafficroute.Kind, meshName, "front", balanced("front", "backend", least))
				w.settle()
				held(t, w.planner.Set("web-1"), 1)
				w.put(trafficroute.Kind, meshName, "direct", balanced("backend", "backend", random))
				w.settle()
				held(t, w.planner.Set("web-1"), 2)
				// Without the other outbound the name is free again.
				web = dataplane("127.0.0.3", "web", "http", "front")
				w.put(mesh.Dataplanes, meshName, "web-1", web)
				w.settle()
				held(t, w.planner.Set("web-1"), 1)
				cluster(t, w.planner.Set("web-1"), "backend")
			})
		}
	}
}

// held requires the given number of clusters that lead to backend, each with its assignment.
func held(t *testing.T, set *resource.Set, want int) {
	t.Helper()
	n := 0
	for _, r := range set.All(resource.Cluster) {
		if strings.HasPrefix(r.Name, "backend") {
			n++
			a := load(t, set.Get(resource.Endpoint, r.Name), new(endpointv3.ClusterLoadAssignment))
			if len(a.GetEndpoints()) != 1 || len(a.GetEndpoints()[0].GetLbEndpoints()) != 1 {
				t.Errorf("%s has %v", r.Name, a.GetEndpoints())
			}
		}
	}
	if n != want {
		t.Errorf("%d clusters lead to backend, want %d", n, want)
	}
}

// TestNamesAsAddresses: if an endpoint of a cluster is a name, Envoy resolves all its
// endpoints, including addresses. Without such endpoints the cluster has an assignment again.
func TestNamesAsAddresses(t *testing.T) {
	w := newWorld(t)
	pair("http")(w)
	named := dataplane("127.0.0.4", "backend", "http")
	named.Networking.AdvertisedAddress = "backend.example.test"
	w.put(mesh.Dataplanes, meshName, "backend-2", named)
	set := w.joined("web-1")
	if name := led(t, set, "outbound:127.0.0.1:10001"); name != "backend@by-name" {
		t.Errorf("requests are led to %s", name)
	}
	c := cluster(t, set, "backend@by-name")
	if c.GetType() != clusterv3.Cluster_STRICT_DNS {
		t.Fatalf("the cluster is %v", c.GetType())
	}
	var addresses []string
	for _, l := range c.GetLoadAssignment().GetEndpoints() {
		for _, e := range l.GetLbEndpoints() {
			addresses = append(addresses, e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress())
		}
	}
	if got := strings.Join(addresses, " "); got != "backend.example.test 127.0.0.2" {
		t.Errorf("the endpoints are %s", got)
	}
	if len(set.All(resource.Endpoint)) > 0 || set.Get(resource.Cluster, "backend") != nil {
		t.Error("there is an assignment or a cluster that nobody asks for")
	}
	validate(t, set)
	w.drop(mesh.Dataplanes, "backend-2")
	w.settle()
	set = w.planner.Set("web-1")
	if got := cluster(t, set, "backend").GetType(); got != clusterv3.Cluster_EDS {
		t.Errorf("without names the cluster is %v", got)
	}
	load(t, set.Get(resource.Endpoint, "backend"), new(endpointv3.ClusterLoadAssignment))
}

// TestProxiesWithNames: a proxy whose address is a name listens on all addresses of its host.
// It does not listen on a port where it would call itself instead of its workload. Its other
// listeners must not use the same ports.
func TestProxiesWithNames(t *testing.T) {
	w := newWorld(t)
	d := dataplane("backend.example.test", "backend", "http", "backend", "backend")
	d.Networking.Outbound[1].Port = 8080 // the inbound on all addresses takes precedence
	d.Networking.Inbound = append(d.Networking.Inbound,
		mesh.Inbound{Port: 8081, ServicePort: 8081, Tags: d.Networking.Inbound[0].Tags},
		mesh.Inbound{Port: 8080, ServicePort: 9082, Address: "127.0.0.9", Tags: d.Networking.Inbound[0].Tags},
		mesh.Inbound{Port: 8083, ServicePort: 8083, ServiceAddress: "192.0.2.1", Tags: d.Networking.Inbound[0].Tags})
	w.put(mesh.Dataplanes, meshName, "backend-1", d)
	set := w.joined("backend-1")
	var names []string
	for _, r := range set.All(resource.Listener) {
		names = append(names, r.Name)
	}
	if got := strings.Join(names, " "); got != "inbound:0.0.0.0:8080 inbound:0.0.0.0:8083 outbound:127.0.0.1:10001" {
		t.Errorf("listeners are %s", got)
	}
	var failed []string
	for _, f := range w.planner.Failures("backend-1") {
		failed = append(failed, f.Cell)
	}
	if got := strings.Join(failed, " "); got != "inbound:0.0.0.0:8081 inbound:127.0.0.9:8080 outbound:127.0.0.1:8080" {
		t.Errorf("failures are %s", got)
	}
	validate(t, set)
	local := dataplane("localhost", "backend", "http")
	w.put(mesh.Dataplanes, meshName, "backend-1", local)
	w.settle()
	if w.planner.Set("backend-1").Get(resource.Listener, "inbound:127.0.0.1:8080") == nil {
		t.Error("localhost is not the loopback address")
	}
}

// TestBareProxies: an Envoy without the filter's library would refuse a listener that names
// the filter, so it gets none that does. If tokens are demanded, its inbound refuses
// everything, which is reported as a failure. Other proxies are not affected.
func TestBareProxies(t *testing.T) {
	w := newWorld(t)
	pair("http")(w)
	w.put(mesh.Dataplanes, meshName, "backend-2", dataplane("127.0.0.4", "backend", "http"))
	w.planner.Bare("backend-2", true)
	set := w.joined("backend-1", "backend-2")
	const listener = "inbound:127.0.0.4:8080"
	mentions := func(set *resource.Set) bool {
		for _, kind := range []resource.TypeURL{resource.Listener, resource.Route} {
			for _, r := range set.All(kind) {
				if strings.Contains(string(r.Body), "DynamicModuleFilter") {
					return true
				}
			}
		}
		return false
	}
	if mentions(set) || !mentions(w.planner.Set("backend-1")) {
		t.Errorf("the filter is at the bare proxy: %t, at the other: %t", mentions(set), mentions(w.planner.Set("backend-1")))
	}
	if led(t, set, listener) != "@localhost:9080" {
		t.Error("the workload is not reached")
	}
	if f := w.planner.Failures("backend-2"); len(f) > 0 {
		t.Errorf("failures are %v", f)
	}
	w.raw(tokensOfBackend)
	w.settle()
	set = w.planner.Set("backend-2")
	if mentions(set) {
		t.Error("the policy brings the filter")
	}
	routes := hostOf(t, set, listener).GetRoutes()
	if len(routes) != 1 || routes[0].GetDirectResponse().GetStatus() != 503 {
		t.Errorf("the bare proxy answers by %v", routes)
	}
	if f := w.planner.Failures("backend-2"); len(f) != 1 || !strings.Contains(f[0].Err.Error(), "every request is refused") {
		t.Errorf("failures are %v", f)
	}
	if f := w.planner.Failures("backend-1"); len(f) > 0 || led(t, w.planner.Set("backend-1"), "inbound:127.0.0.2:8080") != "@localhost:9080" {
		t.Errorf("the other proxy is concerned: %v", f)
	}
	// The proxy returns with the library.
	w.planner.Bare("backend-2", false)
	w.settle()
	if !mentions(w.planner.Set("backend-2")) || len(w.planner.Failures("backend-2")) > 0 {
		t.Error("a proxy that is bare no more has no filter")
	}
}

// chainOf returns the filter chain of an inbound for proxies of the mesh.
func chainOf(t *testing.T, set *resource.Set, listener string) *listenerv3.FilterChain {
	t.Helper()
	for _, c := range load(t, set.Get(resource.Listener, listener), new(listenerv3.Listener)).GetFilterChains() {
		if c.GetName() == "mesh" {
			return c
		}
	}
	t.Fatalf("%s has no chain for proxies", listener)
	return nil
}

// TestConnectionsEndWithCertificates: no connection that a certificate has authenticated lasts
// longer than certificates do, on either side.
func TestConnectionsEndWithCertificates(t *testing.T) {
	for _, test := range []struct {
		expiration string
		want       time.Duration
	}{{"", 24 * time.Hour}, {"2h", 2 * time.Hour}, {"3s", time.Minute}} {
		w := newWorld(t)
		pair("http")(w)
		w.put(mesh.Dataplanes, meshName, "ledger-1", dataplane("127.0.0.5", "ledger", "tcp"))
		w.under(mesh.ModePermissive)
		m := mtls(mesh.ModePermissive)
		m.MTLS.Backends[0].DPCert = &mesh.DPCert{Rotation: &mesh.Rotation{Expiration: test.expiration}}
		w.put(mesh.Meshes, "", meshName, m)
		w.planner.Secured("backend-1", true)
		web := w.joined("backend-1", "ledger-1", "web-1")
		tcp, http := new(tcpv3.TcpProxy), new(hcmv3.HttpConnectionManager)
		chain := chainOf(t, w.planner.Set("ledger-1"), "inbound:127.0.0.5:8080")
		if err := chain.GetFilters()[len(chain.GetFilters())-1].GetTypedConfig().UnmarshalTo(tcp); err != nil {
			t.Fatal(err)
		}
		if got := tcp.GetMaxDownstreamConnectionDuration().AsDuration(); got != test.want {
			t.Errorf("%q: TCP connections live %s", test.expiration, got)
		}
		listener := load(t, w.planner.Set("backend-1").Get(resource.Listener, "inbound:127.0.0.2:8080"), new(listenerv3.Listener))
		for _, c := range listener.GetFilterChains() {
			want := time.Duration(0)
			if c.GetName() == "mesh" {
				want = test.want
			}
			if packed := c.GetFilters()[0].GetTypedConfig(); packed.MessageIs(http) {
				if err := packed.UnmarshalTo(http); err != nil {
					t.Fatal(err)
				}
				options := http.GetCommonHttpProtocolOptions()
				if got := options.GetMaxConnectionDuration().AsDuration(); got != want {
					t.Errorf("%q: HTTP connections of chain %s live %s", test.expiration, c.GetName(), got)
				}
				// A connection with an open stream lives as long as the stream.
				if got := options.GetMaxStreamDuration().AsDuration(); got != want {
					t.Errorf("%q: streams of chain %s live %s", test.expiration, c.GetName(), got)
				}
			}
		}
		options := new(upstreamsv3.HttpProtocolOptions)
		if err := cluster(t, web, "backend").GetTypedExtensionProtocolOptions()["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"].UnmarshalTo(options); err != nil {
			t.Fatal(err)
		}
		if got := options.GetCommonHttpProtocolOptions().GetMaxConnectionDuration().AsDuration(); got != test.want {
			t.Errorf("%q: connections to backend live %s", test.expiration, got)
		}
		if options.GetCommonHttpProtocolOptions().GetIdleTimeout() == nil {
			t.Error("the limit takes the place of another")
		}
	}
}

// TestWithdrawnRootsDrain: when a root is no longer trusted, connections from before end,
// because the chain changes. Connections stay if a change only adds trust or signs with
// another root.
func TestWithdrawnRootsDrain(t *testing.T) {
	w := newWorld(t)
	pair("http")(w)
	w.under(mesh.ModeStrict)
	const listener = "inbound:127.0.0.2:8080"
	believe := func(issuer string, withdrawn uint64) string {
		b := trust(issuer)
		b.Withdrawn = withdrawn
		w.put(mesh.Trusts, meshName, meshName, b)
		w.settle()
		return w.planner.Set("backend-1").Get(resource.Listener, listener).Version
	}
	first := w.joined("backend-1").Get(resource.Listener, listener).Version
	if next := believe("next", 0); next != first {
		t.Error("another issuer ends connections")
	}
	if next := believe("next", 1); next == first {
		t.Error("a root that is withdrawn ends no connection")
	}
}
