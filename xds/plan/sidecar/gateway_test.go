package sidecar_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/e2e/golden"
	"github.com/meshgate/meshgate/e2e/ports"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan/plantest"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/retry"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
	"github.com/meshgate/meshgate/xds/resource"
)

// paths is a sample of fronts: gateways that lead to each of their outbounds by a path of
// its name, at the port of a tag.
type paths struct{}

func (paths) Socket(gateway mesh.Tags) (address string, port uint32) {
	n, _ := strconv.ParseUint(gateway["port"], 10, 16) // 0 is refused by Envoy
	return "127.0.0.1", uint32(n)
}

func (paths) Lead(into, outbound *draft.Routes) error {
	for _, route := range outbound.Host.GetRoutes() {
		if prefix, ok := route.GetMatch().GetPathSpecifier().(*routev3.RouteMatch_Prefix); ok {
			prefix.Prefix = "/" + outbound.Service + prefix.Prefix
		}
		into.Host.Routes = append(into.Host.Routes, route)
	}
	return nil
}

func (paths) Listener(d *draft.Outbound) error {
	d.Proto.TrafficDirection = corev3.TrafficDirection_INBOUND
	d.HTTP.UseRemoteAddress = wrapperspb.Bool(true)
	return nil
}

// entrance is a gateway that leads to services.
func entrance(port int, services ...string) *mesh.Dataplane {
	d := dataplane("127.0.0.51", "", "", services...)
	d.Networking.Inbound = nil
	d.Networking.Gateway = &mesh.Gateway{Type: mesh.GatewayBuiltin, Tags: mesh.Tags{mesh.TagService: "edge", "port": strconv.Itoa(port)}}
	return d
}

// entered is a strict mesh of which edge is the gateway, to backend and to ledger, which
// web calls, too.
func entered(t *testing.T, policies []*policy.Policy) *world {
	w := newWorldOf(t, policies, outsides{})
	w.front = paths{}
	w.restart()
	w.under(mesh.ModeStrict)
	w.put(mesh.Dataplanes, meshName, "backend-1", dataplane("127.0.0.11", "backend", "http"))
	w.put(mesh.Dataplanes, meshName, "ledger-1", dataplane("127.0.0.12", "ledger", "http"))
	w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.21", "web", "http", "backend", "ledger"))
	w.put(mesh.Dataplanes, meshName, "edge-1", entrance(18080, "backend", "ledger"))
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
`}

// TestGatewayByTheSameEdits: a gateway has one listener, and behind it the destinations of
// its outbounds, which are those of any proxy, and routes on which the same policies say
// the same: what they say of a virtual host or a listener of a sidecar is in the routes.
func TestGatewayByTheSameEdits(t *testing.T) {
	w := entered(t, all.Policies())
	for _, text := range tuned {
		w.apply(t, text)
	}
	w.settle()
	edge, web := w.planner.Set("edge-1"), w.planner.Set("web-1")
	for _, kind := range []resource.TypeURL{resource.Cluster, resource.Endpoint} {
		for _, name := range []string{"backend", "ledger"} {
			if a, b := edge.Get(kind, name), web.Get(kind, name); a == nil || a != b {
				t.Errorf("%s %s is not the one of a sidecar", kind, name)
			}
		}
	}
	host := hostOf(t, edge, "gateway:127.0.0.1:18080")
	for _, route := range host.GetRoutes() {
		service := route.GetRoute().GetCluster()
		sidecars := load(t, web.Get(resource.Route, "outbound:"+service), new(routev3.RouteConfiguration)).GetVirtualHosts()[0]
		a, b := route.GetRoute(), sidecars.GetRoutes()[0].GetRoute()
		if a.GetRetryPolicy().String() != sidecars.GetRetryPolicy().String() || a.GetTimeout().String() != b.GetTimeout().String() ||
			a.GetMaxStreamDuration().String() != b.GetMaxStreamDuration().String() {
			t.Errorf("the route to %s is %v, of a sidecar %v of %v", service, a, b, sidecars)
		}
	}
	validate(t, edge)
	text, err := yaml.Marshal(tree(t, w, "edge-1", edge))
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, filepath.Join("testdata", "gateway.golden.yaml"), text)
}

// TestFaultsForGateways: faults are an inbound's matter, and a gateway is a caller like
// others: it is told by its certificate.
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

// TestChangesReachGateways makes one change after the other and demands that exactly that
// changes at a gateway and at a sidecar that call the same.
func TestChangesReachGateways(t *testing.T) {
	w := entered(t, all.Policies())
	const table = "+gateway:127.0.0.1:18080"
	w.hold(t, []string{"edge-1", "web-1"}, []step{
		{"limits of requests", func() { w.apply(t, tuned[0]) },
			map[string][]string{"edge-1": {"+backend", table}, "web-1": {"+backend", "+outbound:127.0.0.1:10001", "+outbound:backend"}}},
		{"how often is tried", func() { w.apply(t, tuned[1]) }, map[string][]string{"edge-1": {table}, "web-1": {"+outbound:backend"}}},
		{"limits of connections, by the gateway alone", func() { w.apply(t, strings.Replace(tuned[2], `"*"`, "edge", 1)) },
			map[string][]string{"edge-1": {"+backend"}}},
		{"an endpoint", func() { w.put(mesh.Dataplanes, meshName, "ledger-2", dataplane("127.0.0.13", "ledger", "http")) },
			map[string][]string{"edge-1": {"+ledger"}, "web-1": {"+ledger"}}},
		{"a destination beyond the mesh", func() { w.put(mesh.Dataplanes, meshName, "edge-1", entrance(18080, "backend", "maps")) },
			map[string][]string{"edge-1": {"+maps", "-ledger", "+maps", "-ledger", table}}},
		{"it comes", func() { w.put(outsideKind, meshName, "maps", outside("maps.example:80", "maps", "")) },
			map[string][]string{"edge-1": {"+maps@by-name", "-maps", "-maps", table}}},
		{"another port", func() { w.put(mesh.Dataplanes, meshName, "edge-1", entrance(18081, "backend", "maps")) },
			map[string][]string{"edge-1": {"+gateway:127.0.0.1:18081", "-gateway:127.0.0.1:18080", "+gateway:127.0.0.1:18081", "-gateway:127.0.0.1:18080"}}},
	})
	if f := w.planner.Failures("edge-1"); len(f) > 0 {
		t.Errorf("failures are %v", f)
	}
}

// TestOneServiceDoesNotHoldUpAGateway: routes that cannot be made stay as they last were
// while what they lead to is there, those to a service that speaks no HTTP go, and all
// others follow.
func TestOneServiceDoesNotHoldUpAGateway(t *testing.T) {
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
	routes := func() []*routev3.Route {
		return hostOf(t, w.planner.Set("edge-1"), "gateway:127.0.0.1:18080").GetRoutes()
	}
	before := routes()
	w.apply(t, strings.NewReplacer("few", "broken", "backend", "ledger").Replace(tuned[1]))
	w.apply(t, tuned[0])
	w.settle()
	after := routes()
	if len(after) != 2 || after[1].String() != before[1].String() || after[0].String() == before[0].String() {
		t.Errorf("the routes are %v", after)
	}
	if f := w.planner.Failures("edge-1"); len(f) != 1 || !f[0].Kept {
		t.Errorf("failures are %v", f)
	}
	w.put(trafficroute.Kind, meshName, "elsewhere", balanced("ledger", "backend", trafficroute.LoadBalancer{}))
	w.apply(t, strings.Replace(tuned[1], "few", "broken", 1))
	w.settle()
	if got := routes(); len(got) != 1 || got[0].String() != after[0].String() {
		t.Errorf("without their cluster the routes are %v", got)
	}
	w.drop(trafficroute.Kind, "elsewhere")
	w.drop(retry.Kind, "broken")
	w.put(mesh.Dataplanes, meshName, "ledger-1", dataplane("127.0.0.12", "ledger", "tcp"))
	w.settle()
	if got := routes(); len(got) != 1 || got[0].String() != after[0].String() {
		t.Errorf("with a service of TCP the routes are %v", got)
	}
	if f := w.planner.Failures("edge-1"); len(f) != 1 || f[0].Kept {
		t.Errorf("failures are %v", f)
	}
}

// TestDelegatedGatewaysHaveOutbounds: what is before a gateway that is not ours is not for
// us to make.
func TestDelegatedGatewaysHaveOutbounds(t *testing.T) {
	w := entered(t, all.Policies())
	d := entrance(18080, "backend", "ledger")
	d.Networking.Gateway.Type = mesh.GatewayDelegated
	w.put(mesh.Dataplanes, meshName, "edge-1", d)
	w.settle()
	set := w.planner.Set("edge-1")
	if set.Get(resource.Listener, "outbound:127.0.0.1:10001") == nil || set.Get(resource.Listener, "gateway:127.0.0.1:18080") != nil {
		t.Errorf("it has the listeners %v", set.All(resource.Listener))
	}
}

// TestGatewayLeads: requests through a real Envoy reach the service of their path, in the
// mesh and beyond it.
func TestGatewayLeads(t *testing.T) {
	free, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldBeyond(t)
	w.front = paths{}
	w.restart()
	backend := dataplane("127.0.0.1", "backend", "http")
	backend.Networking.Inbound[0].Port = answering(t, "backend")
	w.put(mesh.Dataplanes, meshName, "backend-1", backend)
	w.put(outsideKind, meshName, "maps", outside(fmt.Sprintf("localhost:%d", answering(t, "maps")), "maps", ""))
	w.put(mesh.Dataplanes, meshName, "edge-1", entrance(free[0], "backend", "maps"))
	text, err := protojson.Marshal(static(t, w.joined("edge-1")))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	plantest.Run(t, file)
	got := []string{answer(t, free[0], "a.example", "/backend/x"), answer(t, free[0], "a.example", "/maps/x"), answer(t, free[0], "a.example", "/x")}
	if want := []string{"backend a.example", "maps localhost", ""}; !slices.Equal(got, want) {
		t.Errorf("answers are %q, want %q", got, want)
	}
}
