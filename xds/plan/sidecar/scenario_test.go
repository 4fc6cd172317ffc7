package sidecar_test

import (
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/circuitbreaker"
	"github.com/meshgate/meshgate/xds/policy/meshaccesslog"
	"github.com/meshgate/meshgate/xds/policy/meshtrace"
	"github.com/meshgate/meshgate/xds/policy/proxytemplate"
	"github.com/meshgate/meshgate/xds/policy/ratelimit"
	"github.com/meshgate/meshgate/xds/policy/trafficlog"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
	"github.com/meshgate/meshgate/xds/policy/traffictrace"
)

var both = []string{"backend-1", "web-1"}

// only permits one connection and nothing else.
func (w *world) only(source, destination string) {
	for _, d := range all.Defaults() {
		if d.Kind == trafficpermission.Kind {
			w.drop(d.Kind, d.Prefix+meshName)
		}
	}
	w.put(trafficpermission.Kind, meshName, "only", permission(source, destination))
}

var scenarios = []scenario{
	{"plain", both, pair("http")},
	{"strict", both, func(w *world) { pair("http")(w); w.under(mesh.ModeStrict); w.only("web", "backend") }},
	{"permissive", both, func(w *world) { pair("http")(w); w.under(mesh.ModePermissive) }},
	{"secured", both, func(w *world) {
		pair("http")(w)
		w.under(mesh.ModePermissive)
		w.planner.Secured("backend-1", true)
	}},
	{"tcp", both, func(w *world) { pair("tcp")(w); w.under(mesh.ModeStrict); w.only("web", "backend") }},
	{"tcppermissive", both[:1], func(w *world) { pair("tcp")(w); w.under(mesh.ModePermissive) }},
	{"grpc", both, func(w *world) { pair("grpc")(w); w.under(mesh.ModeStrict) }},
	{"split", both[1:], func(w *world) {
		pair("http")(w)
		w.under(mesh.ModeStrict)
		w.raw(`
type: TrafficRoute
mesh: demo
name: split
sources: [{match: {mesh.io/service: web}}]
destinations: [{match: {mesh.io/service: backend}}]
conf:
  loadBalancer: {leastRequest: {choiceCount: 3}}
  split:
  - {weight: 90, destination: {mesh.io/service: backend, version: v1}}
  - {weight: 10, destination: {mesh.io/service: backend, version: v2}}
  http:
  - match: {path: {prefix: /api}, method: {exact: GET}, headers: {x-a: {exact: "1"}}}
    modify: {path: {rewritePrefix: /}}
    destination: {mesh.io/service: backend, version: v2}
`)
	}},
	{"tcpsplit", both[1:], func(w *world) {
		pair("tcp")(w)
		w.raw(`
type: TrafficRoute
mesh: demo
name: split
sources: [{match: {mesh.io/service: "*"}}]
destinations: [{match: {mesh.io/service: backend}}]
conf:
  split:
  - {weight: 90, destination: {mesh.io/service: backend, version: v1}}
  - {weight: 10, destination: {mesh.io/service: backend, version: v2}}
`)
	}},
	{"hashed", both[1:], func(w *world) { pair("http")(w); w.raw(hashed) }},
	{"hashedtcp", both[1:], func(w *world) { pair("tcp")(w); w.raw(hashed) }},
	{"transparent", both, func(w *world) {
		pair("http")(w)
		w.under(mesh.ModeStrict)
		for _, name := range both {
			d, _ := w.state().Dataplane(name)
			copied := *d.Spec.Networking
			copied.Outbound = nil
			copied.TransparentProxying = &mesh.TransparentProxying{RedirectPortInbound: 15006, RedirectPortOutbound: 15001, ReachableServices: []string{"backend"}}
			w.put(mesh.Dataplanes, meshName, name, &mesh.Dataplane{Networking: &copied})
		}
	}},
	// Probes of every protocol, one of the port of an inbound and one of that of a workload.
	{"probed", both, func(w *world) {
		pair("grpc")(w)
		w.under(mesh.ModeStrict)
		backend := dataplane("127.0.0.2", "backend", "http")
		backend.Networking.Inbound = append(backend.Networking.Inbound, mesh.Inbound{Port: 8081, ServicePort: 9081, Tags: mesh.Tags{mesh.TagService: "rpc", mesh.TagProtocol: "grpc"}})
		backend.Probes = &mesh.Probes{Port: 9000, Endpoints: []mesh.ProbeEndpoint{
			{InboundPort: 9080, InboundPath: "/healthz", Path: "/9080/healthz"}, {InboundPort: 8081, InboundPath: "/ready", Path: "/rpc"},
		}}
		w.put(mesh.Dataplanes, meshName, "backend-1", backend)
		web := transparent("127.0.0.3", "web", "tcp")
		web.Probes = &mesh.Probes{Port: 9000, Endpoints: []mesh.ProbeEndpoint{{InboundPort: 9080, InboundPath: "/", Path: "/web"}}}
		w.put(mesh.Dataplanes, meshName, "web-1", web)
	}},
	// Workloads that agents probe: with defaults, with everything, twice at one address, where a
	// transparent proxy has it, and not where nobody is to call.
	{"serviceprobes", both, func(w *world) {
		pair("http")(w)
		backend := dataplane("127.0.0.2", "backend", "http")
		n := backend.Networking
		three, two := uint32(3), uint32(2)
		n.Inbound[0].ServiceProbe = &mesh.ServiceProbe{TCP: &mesh.TCPProbe{}}
		n.Inbound[0].SetReady(false)
		n.Inbound = append(n.Inbound, mesh.Inbound{Port: 8081, Address: "127.0.0.4", ServiceAddress: "127.0.0.5", Tags: mesh.Tags{mesh.TagService: "backend"}, ServiceProbe: &mesh.ServiceProbe{
			Interval: mesh.Of(5 * time.Second), Timeout: mesh.Of(time.Second), UnhealthyThreshold: &three, HealthyThreshold: &two, TCP: &mesh.TCPProbe{},
		}}, mesh.Inbound{Port: 8082, State: mesh.StateIgnored, Tags: mesh.Tags{mesh.TagService: "old"}, ServiceProbe: &mesh.ServiceProbe{TCP: &mesh.TCPProbe{}}})
		w.put(mesh.Dataplanes, meshName, "backend-1", backend)
		web := transparent("127.0.0.3", "web", "tcp")
		web.Networking.Inbound[0].ServiceProbe = &mesh.ServiceProbe{TCP: &mesh.TCPProbe{}}
		w.put(mesh.Dataplanes, meshName, "web-1", web)
	}},
	// What is accessed directly: by mutual TLS or not, by IPv6, and not at one's own address.
	{"direct", both[1:], func(w *world) {
		pair("http")(w)
		w.under(mesh.ModePermissive)
		w.planner.Secured("backend-1", true)
		backend := dataplane("10.0.0.2", "backend", "http")
		backend.Networking.Inbound = append(backend.Networking.Inbound, mesh.Inbound{Port: 8081, Address: "2001:db8::2", Tags: mesh.Tags{mesh.TagService: "other"}})
		w.put(mesh.Dataplanes, meshName, "backend-1", backend)
		w.put(mesh.Dataplanes, meshName, "backend-2", dataplane("10.0.0.3", "backend", "http"))
		web := transparent("10.0.0.9", "web", "http")
		web.Networking.TransparentProxying.DirectAccessServices = []string{"*"}
		web.Networking.TransparentProxying.ReachableServices = []string{"nothing"}
		w.put(mesh.Dataplanes, meshName, "web-1", web)
	}},
	{"virtual", both[1:], func(w *world) {
		pair("http")(w)
		w.put(mesh.Dataplanes, meshName, "web-1", transparent("127.0.0.3", "web", "http"))
		w.put(mesh.VirtualOutbounds, meshName, "versions", virtualOutbound("{{.v}}.{{.s}}.shop", "8080", mesh.Tags{"version": mesh.AnyValue}))
		w.put(mesh.VirtualOutbounds, meshName, "same", virtualOutbound("web.mesh", "80", mesh.Tags{mesh.TagService: "backend"}))
		for host, a := range map[string]string{"backend.mesh": "240.0.0.1", "web.mesh": "240.0.0.2", "v1.backend.shop": "240.0.0.3"} {
			w.put(mesh.Addresses, meshName, host, &mesh.Address{Address: a})
		}
	}},
	{"acrosscallers", []string{"web-1", "all-1"}, callers},
	{"acrosscalled", []string{"edge-1"}, called},
	{"locality", both[1:], func(w *world) {
		pair("http")(w)
		near := dataplane("127.0.0.4", "backend", "http")
		near.Networking.Inbound[0].Tags[mesh.TagZone] = "west"
		w.put(mesh.Dataplanes, meshName, "backend-2", near)
		w.put(mesh.Meshes, "", meshName, &mesh.Mesh{Routing: &mesh.Routing{LocalityAwareLoadBalancing: true}})
	}},
	{"tokens", both[:1], func(w *world) {
		pair("http")(w)
		w.under(mesh.ModePermissive)
		w.raw(`
type: MeshTokenAuth
mesh: demo
name: tokens
spec:
  targetRef: {kind: MeshService, name: backend}
  from: [{targetRef: {kind: Mesh}, default: {config: {global_credentials: true, realm: demo}}}]
`)
	}},
	{"refused", both, func(w *world) {
		pair("http")(w)
		w.under(mesh.ModeStrict)
		w.raw(`
type: MeshTokenAuth
mesh: demo
name: tokens
spec:
  targetRef: {kind: MeshService, name: backend}
  from: [{targetRef: {kind: Mesh}, default: {plugin: {id: 2c6ac1be-5e0e-4a5c-9f0b-0d7b0f6d7c11}}}]
`)
	}},
	{"targets", both[:1], func(w *world) {
		pair("http")(w)
		w.under(mesh.ModePermissive)
		w.raw(targeted)
		w.raw(`
type: MeshTokenAuth
mesh: demo
name: tokens
spec:
  targetRef: {kind: MeshService, name: backend}
  from:
  - {targetRef: {kind: MeshService, name: web}, default: {config: {global_credentials: true, realm: demo}}}
  - {targetRef: {kind: MeshSubset, tags: {team: a}}, default: {plugin: {id: 2c6ac1be-5e0e-4a5c-9f0b-0d7b0f6d7c11}}}
`)
	}},
	{"tcptargets", both[:1], func(w *world) { pair("tcp")(w); w.under(mesh.ModeStrict); w.raw(targeted) }},
	{"unready", both, func(w *world) {
		pair("http")(w)
		d := dataplane("127.0.0.2", "backend", "http")
		d.Networking.Inbound[0].State = mesh.StateNotReady
		w.put(mesh.Dataplanes, meshName, "backend-1", d)
	}},
	{"external", both, func(w *world) {
		w.put(mesh.Dataplanes, meshName, "backend-1", dataplane("127.0.0.2", "backend", "http", "mail", "files", "six", "bank", "shop", "away"))
		w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.3", "web", "http", "mail", "files", "six", "bank", "shop", "away"))
		w.only("web", mesh.AnyValue)
		w.put(mesh.Secrets, meshName, "client", &mesh.Secret{Data: []byte(clientPEM + rootCA)})
		bank := presenting("bank.example:443", "bank", "client")
		bank.Networking.TLS.CACert = nil
		w.put(mesh.ExternalServices, meshName, "bank", bank)
		shop := presenting("shop.example:443", "shop", "")
		shop.Networking.TLS.CACert = &mesh.DataSource{Secret: "client"}
		w.put(mesh.ExternalServices, meshName, "shop", shop)
		w.raw(`
type: RateLimit
mesh: demo
name: bank
sources: [{match: {mesh.io/service: web}}]
destinations: [{match: {mesh.io/service: bank}}, {match: {mesh.io/service: backend}}]
conf: {http: {requests: 5, interval: 10s, onRateLimit: {status: 423}}}
`)
		w.raw(`
type: TrafficRoute
mesh: demo
name: bank
sources: [{match: {mesh.io/service: "*"}}]
destinations: [{match: {mesh.io/service: bank}}]
conf:
  http:
  - {match: {path: {prefix: /a}}, destination: {mesh.io/service: bank}}
  - {match: {path: {prefix: /b}}, destination: {mesh.io/service: bank}}
  destination: {mesh.io/service: bank}
`)
		w.put(mesh.ExternalServices, meshName, "away", presenting("away.example:443", "away", "none"))
		w.put(mesh.ExternalServices, meshName, "mail", external("mail.example:443", "mail", rootCA))
		files := external("192.0.2.7:2049", "files", "")
		files.Tags[mesh.TagProtocol] = mesh.ProtocolTCP
		w.put(mesh.ExternalServices, meshName, "files", files)
		w.put(mesh.ExternalServices, meshName, "six", external("[2001:db8::1]:8443", "six", rootCA))
	}},
	{"ipv6", both, func(w *world) {
		w.under(mesh.ModeStrict)
		backend := dataplane("fd00::2", "backend", "http")
		backend.Networking.TransparentProxying = &mesh.TransparentProxying{RedirectPortInbound: 15006, RedirectPortOutbound: 15001, IPFamilyMode: mesh.IPFamilyIPv6, ReachableServices: []string{"nothing"}}
		web := dataplane("fd00::3", "web", "http", "backend")
		web.Networking.Outbound[0].Address = "::1"
		w.put(mesh.Dataplanes, meshName, "backend-1", backend)
		w.put(mesh.Dataplanes, meshName, "web-1", web)
	}},
	{"inbounds", []string{"backend-1"}, func(w *world) {
		w.under(mesh.ModeStrict)
		d := dataplane("127.0.0.2", "backend", "http")
		in := d.Networking.Inbound[0]
		d.Networking.Inbound = append(d.Networking.Inbound, []mesh.Inbound{
			{Port: 8081, ServicePort: 9081, Tags: in.Tags},
			// The same port at another address, and the same workload with another protocol.
			{Address: "127.0.0.9", Port: 8080, ServicePort: 9080, Tags: mesh.Tags{mesh.TagService: "backend", mesh.TagProtocol: "grpc"}},
			{Port: 8082, ServicePort: 9080, ServiceAddress: "127.0.0.8", Tags: in.Tags},
			{Port: 8083, ServicePort: 9080, Tags: mesh.Tags{mesh.TagService: "other", mesh.TagProtocol: "http"}},
		}...)
		w.put(mesh.Dataplanes, meshName, "backend-1", d)
	}},
	{"outbounds", both[1:], func(w *world) {
		pair("http")(w)
		d := dataplane("127.0.0.3", "web", "http", "backend", "backend")
		d.Networking.Outbound[1].Tags["version"] = "v1"
		// The first port at another address.
		d.Networking.Outbound = append(d.Networking.Outbound, mesh.Outbound{Address: "127.0.0.4", Port: 10001, Tags: mesh.Tags{mesh.TagService: "backend", "version": "v2"}})
		w.put(mesh.Dataplanes, meshName, "web-1", d)
	}},
	{"named", both[1:], func(w *world) {
		pair("http")(w)
		w.under(mesh.ModeStrict)
		named := dataplane("127.0.0.4", "backend", "http")
		named.Networking.AdvertisedAddress = "backend.example.test"
		w.put(mesh.Dataplanes, meshName, "backend-2", named)
	}},
	{"apart", both[1:], func(w *world) {
		pair("http")(w)
		w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.3", "web", "http", "front", "backend"))
		w.put(trafficroute.Kind, meshName, "front", balanced("front", "backend", trafficroute.LoadBalancer{Random: &struct{}{}}))
	}},
	{"bare", both[:1], func(w *world) { pair("http")(w); w.under(mesh.ModeStrict); w.planner.Bare("backend-1", true) }},
	{"clash", both[1:], func(w *world) {
		pair("http")(w)
		d := dataplane("127.0.0.3", "web", "http", "backend", "web", "backend")
		d.Networking.Outbound[1].Port = 10001
		d.Networking.Outbound[2].Address, d.Networking.Outbound[2].Port = "127.0.0.3", 8080
		d.Networking.Inbound = append(d.Networking.Inbound, d.Networking.Inbound[0],
			mesh.Inbound{Port: 8085, ServiceAddress: "localhost", Tags: mesh.Tags{mesh.TagService: "named"}},
			mesh.Inbound{Port: 8086, Address: "localhost", Tags: mesh.Tags{mesh.TagService: "nowhere"}})
		w.put(mesh.Dataplanes, meshName, "web-1", d)
	}},
	{"checked", both[1:], func(w *world) {
		pair("grpc")(w)
		w.under(mesh.ModeStrict)
		w.raw(`
type: HealthCheck
mesh: demo
name: backend
sources: [{match: {mesh.io/service: web}}]
destinations: [{match: {mesh.io/service: backend}}]
conf:
  interval: 10s
  timeout: 2s
  unhealthyThreshold: 3
  healthyThreshold: 1
  failTrafficOnPanic: true
  http: {path: /health, requestHeadersToAdd: [{header: {key: x-check, value: "100%"}}]}
`)
	}},
	{"traced", both, func(w *world) {
		pair("http")(w)
		m := mtls(mesh.ModePermissive)
		m.Tracing = &mesh.Tracing{DefaultBackend: "zipkin", Backends: []mesh.TracingBackend{agent("127.0.0.1"), {
			Name: "zipkin", Type: mesh.TracingZipkin, Sampling: new(12.5), Conf: map[string]any{"url": "http://zipkin.example:9411/api/v2/spans"},
		}}}
		w.under(mesh.ModePermissive)
		w.put(mesh.Meshes, "", meshName, m)
		w.put(traffictrace.Kind, meshName, "all", traced("*", ""))
		w.put(traffictrace.Kind, meshName, "web", traced("web", "agent"))
	}},
	{"otlp", both[1:], func(w *world) {
		pair("http")(w)
		w.put(mesh.Meshes, "", meshName, &mesh.Mesh{Tracing: &mesh.Tracing{DefaultBackend: "otlp", Backends: []mesh.TracingBackend{{
			Name: "otlp", Type: mesh.TracingOpenTelemetry, Conf: map[string]any{"endpoint": "otel.example:4317"},
		}}}})
		w.put(traffictrace.Kind, meshName, "all", traced("*", ""))
	}},
	{"metrics", both, func(w *world) {
		pair("http")(w)
		w.put(mesh.Trusts, meshName, meshName, trust("root"))
		w.put(mesh.Meshes, "", meshName, scraped(mtls(mesh.ModeStrict), map[string]any{
			"path": "/stats", "envoy": map[string]any{"filterRegex": "http.*", "usedOnly": true}, "aggregate": []any{
				map[string]any{"name": "app", "port": 9081.0, "path": "/metrics?format=prometheus"}, map[string]any{"name": "other"},
			},
		}))
		backend := dataplane("127.0.0.2", "backend", "http")
		backend.Metrics = &mesh.MetricsBackend{Type: mesh.Prometheus, Conf: map[string]any{"port": 8080.0}}
		w.put(mesh.Dataplanes, meshName, "backend-1", backend)
		w.put(trafficpermission.Kind, meshName, "metrics", permission("web", "dataplane-metrics"))
	}},
	{"logged", both[1:], func(w *world) {
		pair("http")(w)
		web := dataplane("127.0.0.3", "web", "http", "backend")
		web.Networking.TransparentProxying = &mesh.TransparentProxying{RedirectPortOutbound: 15001}
		w.put(mesh.Dataplanes, meshName, "web-1", web)
		w.put(mesh.Meshes, "", meshName, &mesh.Mesh{Logging: &mesh.Logging{Backends: []mesh.LoggingBackend{logFile("/logs/a.log")}}})
		w.put(trafficlog.Kind, meshName, "all", logTo("file"))
	}},
	{"faults", both[:1], func(w *world) {
		pair("http")(w)
		w.under(mesh.ModePermissive)
		w.raw(`
type: FaultInjection
mesh: demo
name: web
sources: [{match: {mesh.io/service: web, team: "*"}}, {match: {mesh.io/service: jobs}}]
destinations: [{match: {mesh.io/service: backend, mesh.io/protocol: http}}]
conf: {abort: {percentage: 12.5, httpStatus: 503}, responseBandwidth: {percentage: 100, limit: 50 mbps}}
`)
		w.raw(`
type: FaultInjection
mesh: demo
name: all
sources: [{match: {mesh.io/service: "*"}}]
destinations: [{match: {mesh.io/service: "*", mesh.io/protocol: http}}]
conf: {delay: {percentage: 1, value: 2s}}
`)
	}},
	{"detected", both[1:], func(w *world) { pair("http")(w); w.sample(circuitbreaker.Kind, "full") }},
	{"limited", both, func(w *world) {
		pair("http")(w)
		w.under(mesh.ModePermissive)
		for _, name := range []string{"all", "sources", "version"} {
			w.sample(ratelimit.Kind, name)
		}
	}},
	{"modified", both, func(w *world) {
		pair("http")(w)
		w.under(mesh.ModeStrict)
		w.sample(proxytemplate.Kind, "modifications")
	}},
	{"added", both[1:], func(w *world) { pair("http")(w); w.sample(proxytemplate.Kind, "resources") }},
	// The caller has a collector of its own.
	{"meshtraced", both, func(w *world) {
		pair("http")(w)
		w.under(mesh.ModeStrict)
		w.sample(meshtrace.Kind, "otlp")
		w.sample(meshtrace.Kind, "zipkin")
	}},
	{"meshdatadog", both[1:], func(w *world) { pair("http")(w); w.sample(meshtrace.Kind, "datadog") }},
	{"meshlogged", both, func(w *world) {
		pair("http")(w)
		w.under(mesh.ModeStrict)
		w.sample(meshaccesslog.Kind, "everything")
		w.sample(meshaccesslog.Kind, "callers")
	}},
	// Each cluster that a route leads to is checked as the service that it belongs to.
	{"splitchecked", both[1:], func(w *world) {
		elsewhere(w)
		w.raw(`
type: HealthCheck
mesh: demo
name: backend
sources: [{match: {mesh.io/service: web}}]
destinations: [{match: {mesh.io/service: backend}}]
conf:
  interval: 10s
  timeout: 2s
  unhealthyThreshold: 3
  healthyThreshold: 1
  http: {path: /health}
`)
		w.raw(`
type: HealthCheck
mesh: demo
name: spare
sources: [{match: {mesh.io/service: web}}]
destinations: [{match: {mesh.io/service: spare}}]
conf: {interval: 5s, timeout: 1s, unhealthyThreshold: 2, healthyThreshold: 2, tcp: {}}
`)
	}},
	// Faults are injected at the server, wherever routes lead.
	{"splitfaults", append(both[:2:2], "spare-1"), func(w *world) {
		elsewhere(w)
		w.raw(`
type: FaultInjection
mesh: demo
name: spare
sources: [{match: {mesh.io/service: web}}]
destinations: [{match: {mesh.io/service: spare, mesh.io/protocol: http}}]
conf: {delay: {percentage: 50, value: 1s}, abort: {percentage: 12.5, httpStatus: 503}}
`)
	}},
	{"gateway", []string{"edge-1"}, entranceOfAll},
	{"gatewaytokens", []string{"edge-1"}, guardedEntrance},
}

// targeted permits some callers, and denies some of them.
const targeted = `
type: MeshTrafficPermission
mesh: demo
name: targeted
spec:
  targetRef: {kind: MeshService, name: backend}
  from:
  - {targetRef: {kind: MeshService, name: web}, default: {action: Allow}}
  - {targetRef: {kind: MeshService, name: jobs}, default: {action: AllowWithShadowDeny}}
  - {targetRef: {kind: MeshServiceSubset, name: web, tags: {version: v2}}, default: {action: Deny}}
`

// elsewhere sets up a pair under mutual TLS whose calls are split among versions and another
// service.
func elsewhere(w *world) {
	pair("http")(w)
	w.put(mesh.Dataplanes, meshName, "spare-1", dataplane("127.0.0.4", "spare", "http"))
	w.under(mesh.ModeStrict)
	w.raw(`
type: TrafficRoute
mesh: demo
name: elsewhere
sources: [{match: {mesh.io/service: web}}]
destinations: [{match: {mesh.io/service: backend}}]
conf:
  split:
  - {weight: 90, destination: {mesh.io/service: backend, version: v1}}
  - {weight: 10, destination: {mesh.io/service: spare}}
  http:
  - match: {path: {prefix: /new}}
    destination: {mesh.io/service: backend, version: v2}
`)
}

// raw stores a policy from its document.
func (w *world) raw(text string) {
	w.t.Helper()
	w.apply(w.t.(*testing.T), strings.TrimSpace(text))
}
