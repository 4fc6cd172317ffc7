package sidecar_test

import (
	"strings"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy/all"
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
		"no Timeout":                      {nil, 5 * time.Minute},
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
