package sidecar_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	limitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/connection_limit/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/timeout"
	"github.com/meshgate/meshgate/xds/resource"
)

// portChains returns the chains of a listener on a port of the gateway, by their names.
func portChains(t *testing.T, w *world, port string) map[string]*listenerv3.FilterChain {
	t.Helper()
	out := map[string]*listenerv3.FilterChain{}
	for _, c := range load(t, w.planner.Set("edge-1").Get(resource.Listener, "gateway:127.0.0.51:"+port), new(listenerv3.Listener)).GetFilterChains() {
		out[c.GetName()] = c
	}
	return out
}

// requestTime returns how long a client of a chain may take to send a request, 0 for any time.
func requestTime(t *testing.T, c *listenerv3.FilterChain) time.Duration {
	t.Helper()
	m := new(hcmv3.HttpConnectionManager)
	if err := c.GetFilters()[len(c.GetFilters())-1].GetTypedConfig().UnmarshalTo(m); err != nil {
		t.Fatal(err)
	}
	return m.GetRequestTimeout().AsDuration()
}

// TestTimeToSendARequest: a client of a gateway has five minutes to send a request, or as long as a
// Timeout lets a service at the port take, and any time where one sets no limit.
func TestTimeToSendARequest(t *testing.T) {
	limits := func(service, http string) string {
		return `
type: Timeout
mesh: demo
name: of-` + service + `
sources: [{match: {mesh.io/service: edge}}]
destinations: [{match: {mesh.io/service: ` + service + `}}]
conf: {connectTimeout: 3s` + http + `}
`
	}
	for name, c := range map[string]struct {
		policies []string
		want     time.Duration
	}{
		"the one of a new mesh":           {nil, 5 * time.Minute},
		"a short one":                     {[]string{limits("backend", ", http: {requestTimeout: 4s}")}, 5 * time.Minute},
		"a long one":                      {[]string{limits("backend", ", http: {requestTimeout: 20m}")}, 20 * time.Minute},
		"a long one and a longer one":     {[]string{limits("backend", ", http: {requestTimeout: 20m}"), limits("ledger", ", http: {requestTimeout: 1h}")}, time.Hour},
		"one without a limit":             {[]string{limits("backend", "")}, 0},
		"one without one, and a long one": {[]string{limits("ledger", ", http: {idleTimeout: 1h}"), limits("backend", ", http: {requestTimeout: 20m}")}, 0},
		"one for other callers":           {[]string{strings.Replace(limits("backend", ""), "edge", "web", 1)}, 5 * time.Minute},
		"one for what nothing leads to":   {[]string{limits("nobody", "")}, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := entered(t, all.Policies())
			for _, text := range c.policies {
				w.apply(t, text)
			}
			w.settle()
			if got := requestTime(t, portChains(t, w, "18080")["http:"]); got != c.want {
				t.Errorf("a client has %v, not %v", got, c.want)
			}
		})
	}
}

// TestTimeToSendARequestToAHost: hosts of HTTPS have chains of their own, and what is lifted at one
// of them is lifted at no other.
func TestTimeToSendARequestToAHost(t *testing.T) {
	w := entered(t, all.Policies())
	w.put(mesh.Secrets, meshName, "c", &mesh.Secret{Data: []byte(clientPEM)})
	w.gateway(t, `
  - {port: 443, protocol: HTTPS, hostname: up.example, tags: {door: up}, tls: {mode: TERMINATE, certificates: [{secret: c}]}}
  - {port: 443, protocol: HTTPS, hostname: down.example, tags: {door: down}, tls: {mode: TERMINATE, certificates: [{secret: c}]}}
`)
	w.apply(t, `
type: Timeout
mesh: demo
name: uploads
sources: [{match: {mesh.io/service: edge, door: up}}]
destinations: [{match: {mesh.io/service: backend}}]
conf: {http: {idleTimeout: 1h}}
`)
	w.settle()
	chains := portChains(t, w, "443")
	if up, down := requestTime(t, chains["https:up.example"]), requestTime(t, chains["https:down.example"]); up != 0 || down != 5*time.Minute {
		t.Errorf("clients have %v and %v", up, down)
	}
}

// TestConnectionsToAPort: a port takes ten thousand connections, or as many as a listener says.
func TestConnectionsToAPort(t *testing.T) {
	w := entered(t, all.Policies())
	w.put(mesh.Secrets, meshName, "c", &mesh.Secret{Data: []byte(clientPEM)})
	w.gateway(t, `
  - {port: 80, protocol: HTTP}
  - {port: 80, protocol: HTTP, hostname: a.example}
  - {port: 81, protocol: HTTP, resources: {connectionLimit: 5}}
  - {port: 81, protocol: HTTP, hostname: a.example}
  - {port: 82, protocol: HTTP, resources: {connectionLimit: 20000}}
  - {port: 83, protocol: HTTP, resources: {}}
  - {port: 443, protocol: HTTPS, hostname: a.example, tls: {mode: TERMINATE, certificates: [{secret: c}]}}
  - {port: 443, protocol: HTTPS, hostname: b.example, resources: {connectionLimit: 6}, tls: {mode: TERMINATE, certificates: [{secret: c}]}}
  - {port: 9000, protocol: TCP}
  - {port: 9443, protocol: TLS, hostname: a.example, tls: {mode: PASSTHROUGH}}
  - {port: 9443, protocol: TLS, hostname: b.example, resources: {connectionLimit: 7}, tls: {mode: PASSTHROUGH}}
`)
	w.gatewayRoute(t, "tcp", "  tcp: {rules: [{backends: [{weight: 1, destination: {mesh.io/service: backend}}]}]}\n")
	w.settle()
	for port, want := range map[string]map[string]uint64{
		"80": {"http:": 10_000}, "81": {"http:": 5}, "82": {"http:": 20_000}, "83": {"http:": 10_000},
		"443":  {"https:a.example": 10_000, "https:b.example": 6},
		"9000": {"tcp:*": 10_000}, "9443": {"tls:a.example": 10_000, "tls:b.example": 7},
	} {
		got := map[string]uint64{}
		for name, c := range portChains(t, w, port) {
			got[name] = connections(t, c)
		}
		if !maps.Equal(got, want) {
			t.Errorf("port %s takes %v, not %v", port, got, want)
		}
	}
}

// connections returns how many connections a chain takes at a time, 0 for any number. What counts
// them comes first, so that no other filter works for one that is refused.
func connections(t *testing.T, c *listenerv3.FilterChain) uint64 {
	t.Helper()
	limit := new(limitv3.ConnectionLimit)
	if packed := c.GetFilters()[0].GetTypedConfig(); packed.UnmarshalTo(limit) != nil {
		return 0
	}
	return limit.GetMaxConnections().GetValue()
}

// TestPatienceWithServices: a stream through a gateway may be idle for five minutes, or as long as a
// Timeout says, and a service whose cluster is not there cannot be reached now.
func TestPatienceWithServices(t *testing.T) {
	w := entered(t, all.Policies())
	w.drop(timeout.Kind, "timeout-all-"+meshName)
	w.apply(t, tuned[0])
	w.settle()
	set := w.planner.Set("edge-1")
	filters := portChains(t, w, "18080")["http:"].GetFilters()
	edit(t, filters[len(filters)-1].GetTypedConfig(), func(m *hcmv3.HttpConnectionManager) {
		if idle := m.GetStreamIdleTimeout().AsDuration(); idle != 5*time.Minute {
			t.Errorf("streams may be idle for %v", idle)
		}
	})
	idle := map[string]time.Duration{}
	for _, r := range leading(t, set, edgeTable, "*") {
		a := r.GetRoute()
		idle[a.GetCluster()] = a.GetIdleTimeout().AsDuration()
		if code := a.GetClusterNotFoundResponseCode(); code != routev3.RouteAction_SERVICE_UNAVAILABLE {
			t.Errorf("requests for %s are answered with %v where its cluster is not there", a.GetCluster(), code)
		}
	}
	if d := requestTime(t, portChains(t, w, "18080")["http:"]); d != 5*time.Minute {
		t.Errorf("without a Timeout for some requests they may take %v to come", d)
	}
	if want := map[string]time.Duration{"backend": 6 * time.Second, "ledger": 0}; !maps.Equal(idle, want) {
		t.Errorf("routes limit idle streams to %v, not %v", idle, want)
	}
}
