package sidecar_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	upstreamsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/circuitbreaker"
	"github.com/meshgate/meshgate/xds/policy/retry"
	"github.com/meshgate/meshgate/xds/resource"
)

// entrance is a builtin gateway at an address.
func entrance(address string) *mesh.Dataplane {
	return &mesh.Dataplane{Networking: &mesh.Networking{Address: address, Gateway: &mesh.Gateway{Type: mesh.GatewayBuiltin, Tags: mesh.Tags{mesh.TagService: "edge"}}}}
}

// document stores a resource of a kind from its document.
func (w *world) document(t *testing.T, k *model.Kind, name, text string) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	_, spec, err := model.DecodeDocument(k, raw)
	if err != nil {
		t.Fatal(err)
	}
	if vs := k.Document.Validate(spec); len(vs) > 0 {
		t.Fatalf("%s is not valid: %v", name, vs)
	}
	w.put(k, meshName, name, spec)
}

const toEdge = "selectors: [{match: {mesh.io/service: edge}}]\n"

func (w *world) gateway(t *testing.T, listeners string) {
	t.Helper()
	w.document(t, mesh.MeshGateways, "g", toEdge+"conf:\n  listeners:\n"+listeners)
}

func (w *world) gatewayRoute(t *testing.T, name, conf string) {
	t.Helper()
	w.document(t, mesh.MeshGatewayRoutes, name, toEdge+"conf:\n"+conf)
}

// entered is a strict mesh of which edge is the gateway, to backend and to ledger, which web
// calls, too.
func entered(t *testing.T, policies []*policy.Policy) *world {
	w := newWorldOf(t, policies)
	w.under(mesh.ModeStrict)
	w.put(mesh.Dataplanes, meshName, "backend-1", dataplane("127.0.0.11", "backend", "http"))
	w.put(mesh.Dataplanes, meshName, "ledger-1", dataplane("127.0.0.12", "ledger", "http"))
	w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.21", "web", "http", "backend", "ledger"))
	w.put(mesh.Dataplanes, meshName, "edge-1", entrance("127.0.0.51"))
	w.gateway(t, "  - {port: 18080, protocol: HTTP}\n")
	for _, service := range []string{"backend", "ledger"} {
		w.gatewayRoute(t, service, `
  http:
    rules:
    - matches: [{path: {match: PREFIX, value: /`+service+`}}]
      backends: [{weight: 1, destination: {mesh.io/service: `+service+`}}]
`)
	}
	w.joined("backend-1", "ledger-1", "web-1", "edge-1")
	return w
}

// tuned are policies of every kind that tunes connections, for all who call backend.
var tuned = []string{`
type: Timeout
mesh: demo
name: few
sources: [{match: {mesh.io/service: "*"}}]
destinations: [{match: {mesh.io/service: backend}}]
conf: {connectTimeout: 3s, http: {requestTimeout: 4s, idleTimeout: 50s, streamIdleTimeout: 6s, maxStreamDuration: 70s}}
`, `
type: Retry
mesh: demo
name: few
sources: [{match: {mesh.io/service: "*"}}]
destinations: [{match: {mesh.io/service: backend}}]
conf: {http: {numRetries: 2, perTryTimeout: 1s}}
`, `
type: CircuitBreaker
mesh: demo
name: few
sources: [{match: {mesh.io/service: "*"}}]
destinations: [{match: {mesh.io/service: backend}}]
conf: {thresholds: {maxConnections: 2}}
`, `
type: HealthCheck
mesh: demo
name: few
sources: [{match: {mesh.io/service: "*"}}]
destinations: [{match: {mesh.io/service: backend}}]
conf: {interval: 10s, timeout: 2s, unhealthyThreshold: 3, healthyThreshold: 1, http: {path: /health}}
`, `
type: RateLimit
mesh: demo
name: few
sources: [{match: {mesh.io/service: edge}}]
destinations: [{match: {mesh.io/service: backend}}]
conf: {http: {requests: 5, interval: 10s, onRateLimit: {status: 423}}}
`}

// tableOf returns a route table of a gateway.
func tableOf(t *testing.T, set *resource.Set, name string) *routev3.RouteConfiguration {
	t.Helper()
	return load(t, set.Get(resource.Route, name), new(routev3.RouteConfiguration))
}

// leading returns the routes of a host that lead to clusters, or that answer in their place.
func leading(t *testing.T, set *resource.Set, table, host string) (out []*routev3.Route) {
	t.Helper()
	for _, v := range tableOf(t, set, table).GetVirtualHosts() {
		if v.GetName() == host {
			routes := v.GetRoutes()[1:] // the first one refuses TRACE
			if strings.HasPrefix(host, "*") {
				routes = routes[1:] // and the second one several hosts
			}
			return routes
		}
	}
	t.Fatalf("no host %s", host)
	return nil
}

const edgeTable = "g:HTTP:18080:*"

// TestGatewayByTheSameEdits: the clusters of a gateway are those of any proxy, with a limit of what
// it holds for strangers, and policies say in its routes what they say of a virtual host or a listener
// of a sidecar.
func TestGatewayByTheSameEdits(t *testing.T) {
	w := entered(t, all.Policies())
	for _, text := range tuned {
		w.apply(t, text)
	}
	w.settle()
	edge, web := w.planner.Set("edge-1"), w.planner.Set("web-1")
	for _, name := range []string{"backend", "ledger"} {
		if a, b := edge.Get(resource.Endpoint, name), web.Get(resource.Endpoint, name); a == nil || a.Version != b.Version {
			t.Errorf("the endpoints of %s are not those of a sidecar", name)
		}
		a, b := load(t, edge.Get(resource.Cluster, name), new(clusterv3.Cluster)), load(t, web.Get(resource.Cluster, name), new(clusterv3.Cluster))
		if a.GetPerConnectionBufferLimitBytes().GetValue() != 32<<10 || b.PerConnectionBufferLimitBytes != nil {
			t.Errorf("connections to %s hold %v of a gateway and %v of a sidecar", name, a.GetPerConnectionBufferLimitBytes(), b.GetPerConnectionBufferLimitBytes())
		}
		const httpOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
		window := func(c *clusterv3.Cluster) (*wrapperspb.UInt32Value, *upstreamsv3.HttpProtocolOptions) {
			options := new(upstreamsv3.HttpProtocolOptions)
			if err := c.GetTypedExtensionProtocolOptions()[httpOptions].UnmarshalTo(options); err != nil {
				t.Fatal(err)
			}
			return options.GetExplicitHttpConfig().GetHttp2ProtocolOptions().GetInitialStreamWindowSize(), options
		}
		held, options := window(a)
		if other, _ := window(b); held.GetValue() != 64<<10 || other != nil {
			t.Errorf("streams to %s hold %v of a gateway and %v of a sidecar", name, held, other)
		}
		a.PerConnectionBufferLimitBytes, options.GetExplicitHttpConfig().GetHttp2ProtocolOptions().InitialStreamWindowSize = nil, nil
		packed, err := anypb.New(options)
		if err != nil {
			t.Fatal(err)
		}
		if a.TypedExtensionProtocolOptions[httpOptions] = packed; !proto.Equal(a, b) {
			t.Errorf("the cluster of %s is %v, of a sidecar %v", name, a, b)
		}
	}
	routes := leading(t, edge, edgeTable, "*")
	if len(routes) != 2 {
		t.Fatalf("routes are %v", routes)
	}
	for _, route := range routes {
		service := route.GetRoute().GetCluster()
		sidecars := load(t, web.Get(resource.Route, "outbound:"+service), new(routev3.RouteConfiguration)).GetVirtualHosts()[0]
		a, b := route.GetRoute(), sidecars.GetRoutes()[0].GetRoute()
		if a.GetRetryPolicy().String() != sidecars.GetRetryPolicy().String() || a.GetTimeout().String() != b.GetTimeout().String() ||
			a.GetMaxStreamDuration().String() != b.GetMaxStreamDuration().String() {
			t.Errorf("the route to %s is %v, of a sidecar %v of %v", service, a, b, sidecars)
		}
		if limited := route.GetTypedPerFilterConfig()["envoy.filters.http.local_ratelimit"] != nil; limited != (service == "backend") {
			t.Errorf("the route to %s is limited: %t", service, limited)
		}
	}
}

// TestFaultsForGateways: faults are an inbound's matter, and a gateway is a caller like others: it
// is told by its certificate.
func TestFaultsForGateways(t *testing.T) {
	w := entered(t, all.Policies())
	w.apply(t, `
type: FaultInjection
mesh: demo
name: edge
sources: [{match: {mesh.io/service: edge}}]
destinations: [{match: {mesh.io/service: backend, mesh.io/protocol: http}}]
conf: {abort: {httpStatus: 503, percentage: 100}}
`)
	w.settle()
	host := hostOf(t, w.planner.Set("backend-1"), "inbound:127.0.0.11:8080")
	if text := host.String(); !strings.Contains(text, "envoy.filters.http.fault") || !strings.Contains(text, "mesh://mesh.io/service/edge") {
		t.Errorf("the inbound of backend says %s", text)
	}
}

// TestChangesReachGateways makes one change after the other and demands that exactly that changes
// at a gateway and at a sidecar that call the same.
func TestChangesReachGateways(t *testing.T) {
	w := entered(t, all.Policies())
	const table = "+" + edgeTable
	w.hold(t, []string{"edge-1", "web-1"}, []step{
		{"limits of requests", func() { w.apply(t, tuned[0]) },
			map[string][]string{"edge-1": {"+backend", table}, "web-1": {"+backend", "+outbound:127.0.0.1:10001", "+outbound:backend"}}},
		{"how often is tried", func() { w.apply(t, tuned[1]) }, map[string][]string{"edge-1": {table}, "web-1": {"+outbound:backend"}}},
		{"limits of connections, by the gateway alone", func() { w.apply(t, strings.Replace(tuned[2], `"*"`, "edge", 1)) },
			map[string][]string{"edge-1": {"+backend"}}},
		{"how many requests", func() { w.apply(t, tuned[4]) }, map[string][]string{"edge-1": {table}}},
		{"an endpoint", func() { w.put(mesh.Dataplanes, meshName, "ledger-2", dataplane("127.0.0.13", "ledger", "http")) },
			map[string][]string{"edge-1": {"+ledger"}, "web-1": {"+ledger"}}},
		{"a route", func() { w.drop(mesh.MeshGatewayRoutes, "ledger") }, map[string][]string{"edge-1": {"-ledger", "-ledger", table}}},
		{"another port", func() { w.gateway(t, "  - {port: 18081, protocol: HTTP}\n") },
			map[string][]string{"edge-1": {"+gateway:127.0.0.51:18081", "-gateway:127.0.0.51:18080", "+g:HTTP:18081:*", "-g:HTTP:18080:*"}}},
		{"a route of others", func() {
			w.document(t, mesh.MeshGatewayRoutes, "others", "selectors: [{match: {mesh.io/service: other}}]\nconf: {tcp: {rules: [{backends: [{destination: {mesh.io/service: backend}}]}]}}")
		}, map[string][]string{}},
	})
	if f := w.planner.Failures("edge-1"); len(f) > 0 {
		t.Errorf("failures are %v", f)
	}
}

// TestOneRouteDoesNotHoldUpAGateway: requests for a route that cannot be made are answered with an
// error, and no other route takes them. All others follow.
func TestOneRouteDoesNotHoldUpAGateway(t *testing.T) {
	policies := all.Policies()
	for i, p := range policies {
		if p.Kind == retry.Kind {
			broken := *p
			broken.OutboundRoutes = func(d *draft.Routes, s *policy.Selection) error {
				if s.Policies[0].Name == "broken" {
					return errors.New("a mistake")
				}
				return p.OutboundRoutes(d, s)
			}
			policies[i] = &broken
		}
	}
	w := entered(t, policies)
	w.planner.Leave("web-1")
	w.apply(t, strings.NewReplacer("few", "broken", "backend", "ledger").Replace(tuned[1]))
	w.apply(t, tuned[0])
	w.settle()
	routes := leading(t, w.planner.Set("edge-1"), edgeTable, "*")
	if len(routes) != 2 {
		t.Errorf("routes are %v", routes)
	}
	for _, route := range routes {
		switch route.GetMatch().GetPathSeparatedPrefix() {
		case "/backend":
			if route.GetRoute().GetTimeout().GetSeconds() != 4 {
				t.Errorf("the route to backend is %v", route)
			}
		case "/ledger":
			if route.GetDirectResponse().GetStatus() != 500 {
				t.Errorf("the route to ledger is %v", route)
			}
		}
	}
	if f := w.planner.Failures("edge-1"); len(f) != 1 || !strings.Contains(f[0].Err.Error(), "a mistake") {
		t.Errorf("failures are %v", f)
	}
}

// TestDelegatedGatewaysHaveOutbounds: what is before a gateway that is not ours is not for us to
// make.
func TestDelegatedGatewaysHaveOutbounds(t *testing.T) {
	w := entered(t, all.Policies())
	d := dataplane("127.0.0.51", "", "", "backend")
	d.Networking.Inbound, d.Networking.Gateway = nil, &mesh.Gateway{Tags: mesh.Tags{mesh.TagService: "edge"}}
	w.put(mesh.Dataplanes, meshName, "edge-1", d)
	w.settle()
	set := w.planner.Set("edge-1")
	if set.Get(resource.Listener, "outbound:127.0.0.1:10001") == nil || set.Get(resource.Listener, "gateway:127.0.0.51:18080") != nil {
		t.Errorf("it has the listeners %v", set.All(resource.Listener))
	}
}

// TestDelegatedGatewaysAreApart: gateways that are not ours and differ in nothing but their tags have the
// policies and the identities of their own tags, and not those of one another.
func TestDelegatedGatewaysAreApart(t *testing.T) {
	w := entered(t, all.Policies())
	for i, service := range []string{"front", "side"} {
		d := dataplane(fmt.Sprintf("127.0.0.6%d", i), "", "", "backend")
		d.Networking.Inbound, d.Networking.Gateway = nil, &mesh.Gateway{Tags: mesh.Tags{mesh.TagService: service}}
		w.put(mesh.Dataplanes, meshName, service+"-1", d)
		w.put(circuitbreaker.Kind, meshName, service, breaker(service, "backend", uint32(3+i)))
	}
	w.joined("front-1", "side-1")
	for i, service := range []string{"front", "side"} {
		set, held := w.planner.Set(service+"-1"), []uint32{}
		for _, r := range set.All(resource.Cluster) {
			for _, limits := range cluster(t, set, r.Name).GetCircuitBreakers().GetThresholds() {
				held = append(held, limits.GetMaxConnections().GetValue())
			}
		}
		if !slices.Contains(held, uint32(3+i)) || slices.Contains(held, uint32(4-i)) {
			t.Errorf("the limits of %s are %v", service, held)
		}
	}
}

// TestGatewayWithoutMeshGateway: nothing listens, and the proxy shows why.
func TestGatewayWithoutMeshGateway(t *testing.T) {
	w := entered(t, all.Policies())
	w.drop(mesh.MeshGateways, "g")
	w.settle()
	if set := w.planner.Set("edge-1"); set.Len(resource.Listener)+set.Len(resource.Cluster) != 0 {
		t.Errorf("it has %v", set)
	}
	if f := w.planner.Failures("edge-1"); len(f) != 1 || !f[0].Awaited {
		t.Errorf("failures are %v", f)
	}
}

const secured = `  - {port: 443, protocol: HTTPS, hostname: "*.example.com", tls: {mode: TERMINATE, certificates: [{secret: wild}]}}
  - {port: 443, protocol: HTTPS, hostname: foo.example.com, tls: {mode: TERMINATE, certificates: [{secret: foo}]}}
`

// gatewayChains describes the chains of a listener on a port of the gateway: for whom they are, and
// whether they end TLS or close.
func gatewayChains(t *testing.T, w *world, port string) string {
	t.Helper()
	var out []string
	r := w.planner.Set("edge-1").Get(resource.Listener, "gateway:127.0.0.51:"+port)
	if r == nil {
		return "nothing listens"
	}
	for _, c := range load(t, r, new(listenerv3.Listener)).GetFilterChains() {
		names := c.GetFilterChainMatch().GetServerNames()
		if len(names) == 0 {
			names = []string{"*"}
		}
		does := "passes"
		if c.GetTransportSocket() != nil {
			does = "ends"
		}
		if strings.Contains(c.String(), "blackhole") {
			does += " closed"
		}
		out = append(out, strings.Join(names, ",")+" "+does)
	}
	return strings.Join(out, "; ")
}

// TestCertificatesOfGateways: an exchanged certificate changes no resource, only the generation of
// its secret. Connections for a listener without a certificate are closed and taken by no wider
// listener, also if there was one before: proxies that come later could not get it.
func TestCertificatesOfGateways(t *testing.T) {
	w := entered(t, all.Policies())
	w.gateway(t, secured)
	w.put(mesh.Secrets, meshName, "wild", &mesh.Secret{Data: []byte(clientPEM)})
	failed := func() string {
		var out []string
		for _, f := range w.planner.Failures("edge-1") {
			out = append(out, fmt.Sprint(f.Cell, ": ", f.Err, " ", f.Kept))
		}
		return strings.Join(out, "\n")
	}
	const closed, open = "*.example.com ends; foo.example.com passes closed", "*.example.com ends; foo.example.com ends"
	const problem = `g:HTTPS:443:foo.example.com: secret "foo" cannot be used, and connections for foo.example.com that need it are closed: `
	w.settle()
	if got := gatewayChains(t, w, "443"); got != closed {
		t.Errorf("without the secret of one the chains are %s", got)
	}
	if got := failed(); !strings.HasPrefix(got, problem) || !strings.HasSuffix(got, "false") {
		t.Errorf("failures are %s", got)
	}
	validate(t, w.planner.Set("edge-1"))
	w.put(mesh.Secrets, meshName, "foo", &mesh.Secret{Data: []byte(clientPEM)})
	w.settle()
	if got := gatewayChains(t, w, "443"); got != open {
		t.Errorf("with both secrets the chains are %s", got)
	}
	before := w.planner.Set("edge-1")
	was, _ := before.Generation(mesh.SecretServer("foo"))
	w.put(mesh.Secrets, meshName, "foo", &mesh.Secret{Data: otherClient(t)})
	w.settle()
	now := w.planner.Set("edge-1")
	if is, ok := now.Generation(mesh.SecretServer("foo")); !ok || is == was || len(changed(before, now)) > 0 {
		t.Errorf("another certificate: generation %q after %q, changed are %v", is, was, changed(before, now))
	}
	for name, spoil := range map[string]func(){
		"spoilt": func() { w.put(mesh.Secrets, meshName, "foo", &mesh.Secret{Data: []byte("none")}) },
		"gone":   func() { w.drop(mesh.Secrets, "foo") },
	} {
		w.put(mesh.Secrets, meshName, "foo", &mesh.Secret{Data: []byte(clientPEM)})
		w.settle()
		spoil()
		w.settle()
		if got := gatewayChains(t, w, "443"); got != closed {
			t.Errorf("%s: the chains are %s", name, got)
		}
		if _, named := w.planner.Set("edge-1").Generation(mesh.SecretServer("foo")); named || !strings.HasPrefix(failed(), problem) {
			t.Errorf("%s: the proxy may have it: %t; failures are %s", name, named, failed())
		}
	}
	w.drop(mesh.Secrets, "wild")
	w.settle()
	if got := gatewayChains(t, w, "443"); got != "nothing listens" {
		t.Errorf("without any secret the chains are %s", got)
	}
}

// TestConnectionsWithoutCertificate: what clients send to a service by TLS does not reach another
// service because the gateway lacks a certificate.
func TestConnectionsWithoutCertificate(t *testing.T) {
	w := entered(t, all.Policies())
	w.gateway(t, strings.ReplaceAll(secured, "HTTPS", "TLS")+"  - {port: 443, protocol: TLS, tls: {mode: PASSTHROUGH}}\n")
	w.gatewayRoute(t, "tcp", "  tcp: {rules: [{backends: [{destination: {mesh.io/service: backend}}]}]}\n")
	w.put(mesh.Secrets, meshName, "wild", &mesh.Secret{Data: []byte(clientPEM)})
	w.settle()
	if got := gatewayChains(t, w, "443"); got != "* passes; *.example.com ends; foo.example.com passes closed" {
		t.Errorf("the chains are %s", got)
	}
	w.gateway(t, strings.ReplaceAll(strings.ReplaceAll(secured, "HTTPS", "TLS"), "{secret: foo}", "{secret: foo}, {secret: wild}"))
	w.settle()
	if got := gatewayChains(t, w, "443"); got != "*.example.com ends; foo.example.com ends" {
		t.Errorf("with one certificate of two the chains are %s", got)
	}
	if f := w.planner.Failures("edge-1"); len(f) != 1 {
		t.Errorf("failures are %v", f)
	}
}

// TestMisdirected: over TLS, a request for a host that is not one of its connection's is misdirected
// (RFC 9110 section 15.5.20), whoever has that host. A client that has one connection for several
// hosts then makes another one.
func TestMisdirected(t *testing.T) {
	w := entered(t, all.Policies())
	w.gateway(t, secured+"  - {port: 444, protocol: HTTPS, tls: {mode: TERMINATE, certificates: [{secret: wild}]}}\n  - {port: 444, protocol: HTTPS, hostname: foo.example.com, tls: {mode: TERMINATE, certificates: [{secret: wild}]}}\n")
	for _, name := range []string{"wild", "foo"} {
		w.put(mesh.Secrets, meshName, name, &mesh.Secret{Data: []byte(clientPEM)})
	}
	w.settle()
	for table, want := range map[string][]string{
		"g:HTTPS:443:*.example.com":   {"foo.example.com", "*"},
		"g:HTTPS:443:foo.example.com": {"*"},
		"g:HTTPS:444:*":               {"foo.example.com"},
		"g:HTTPS:444:foo.example.com": {"*"},
	} {
		var got []string
		for _, v := range tableOf(t, w.planner.Set("edge-1"), table).GetVirtualHosts() {
			if v.GetRoutes()[0].GetDirectResponse().GetStatus() == 421 {
				got = append(got, v.GetDomains()...)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: misdirected are requests for %v, want %v", table, got, want)
		}
	}
	validate(t, w.planner.Set("edge-1"))
}

// TestIdleFieldsOfGateways: what a policy says without effect is told as long as it says so.
func TestIdleFieldsOfGateways(t *testing.T) {
	w := entered(t, all.Policies())
	idle := func() (n int) {
		for _, f := range w.planner.Unserved("edge-1") {
			if f.By != nil {
				n++
			}
		}
		return n
	}
	unpassed := strings.Replace(tuned[3], "http: {path: /health}", "http: {path: /health}, alwaysLogHealthCheckFailures: true", 1)
	w.apply(t, unpassed)
	w.settle()
	first := idle()
	w.apply(t, tuned[3])
	w.settle()
	if now := idle(); first == 0 || now != 0 {
		t.Errorf("%d fields are without effect, and %d when there are none", first, now)
	}
}

// TestStrangersLearnNothing: the gateway's own headers go to nobody.
func TestStrangersLearnNothing(t *testing.T) {
	w := entered(t, all.Policies())
	w.settle()
	l := load(t, w.planner.Set("edge-1").Get(resource.Listener, "gateway:127.0.0.51:18080"), new(listenerv3.Listener))
	var router routerv3.Router
	edit(t, l.GetFilterChains()[0].GetFilters()[1].GetTypedConfig(), func(m *hcmv3.HttpConnectionManager) {
		last := m.GetHttpFilters()[len(m.GetHttpFilters())-1]
		if err := last.GetTypedConfig().UnmarshalTo(&router); err != nil {
			t.Fatal(err)
		}
	})
	if !router.GetSuppressEnvoyHeaders() || !slices.Contains(tableOf(t, w.planner.Set("edge-1"), edgeTable).GetResponseHeadersToRemove(), "x-envoy-upstream-service-time") {
		t.Error("clients are told how long services take")
	}
}

// TestOneServiceOfSeveralSorts: what listeners choose for a destination differs, and so do the
// clusters. A service of which nobody says that it speaks HTTP is asked by HTTP/1.1.
func TestOneServiceOfSeveralSorts(t *testing.T) {
	w := entered(t, all.Policies())
	w.gateway(t, "  - {port: 18080, protocol: HTTP}\n  - {port: 18081, protocol: HTTP, tags: {port: second}}\n  - {port: 18082, protocol: TCP}\n")
	w.gatewayRoute(t, "tcp", "  tcp: {rules: [{backends: [{weight: 1, destination: {mesh.io/service: backend}}]}]}\n")
	w.apply(t, strings.Replace(tuned[2], `mesh.io/service: "*"}`, `mesh.io/service: edge, port: second}`, 1))
	w.put(mesh.Dataplanes, meshName, "ledger-1", dataplane("127.0.0.12", "ledger", "tcp"))
	w.settle()
	set := w.planner.Set("edge-1")
	most := func(table string) uint32 {
		for _, r := range leading(t, set, table, "*") {
			if name := r.GetRoute().GetCluster(); strings.HasPrefix(name, "backend") {
				return cluster(t, set, name).GetCircuitBreakers().GetThresholds()[0].GetMaxConnections().GetValue()
			}
		}
		t.Fatalf("nothing leads to backend in %s", table)
		return 0
	}
	if a, b := most("g:HTTP:18080:*"), most("g:HTTP:18081:*"); a != 1024 || b != 2 {
		t.Errorf("connections are limited to %d and %d", a, b)
	}
	c := load(t, set.Get(resource.Cluster, "ledger"), new(clusterv3.Cluster))
	if text := c.String(); strings.Contains(text, "http2_protocol_options") {
		t.Errorf("a service of TCP is asked by %s", text)
	}
	validate(t, set)
}
