package sidecar_test

import (
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy/meshtrace"
	"github.com/meshgate/meshgate/xds/policy/target"
	"github.com/meshgate/meshgate/xds/policy/traffictrace"
	"github.com/meshgate/meshgate/xds/resource"
)

// agent is a tracing backend that names the service of each span.
func agent(host string) mesh.TracingBackend {
	return mesh.TracingBackend{Name: "agent", Type: mesh.TracingDatadog, Conf: map[string]any{"address": host, "port": float64(8126)}}
}

// traced has the proxies of a service send spans to a backend.
func traced(service, backend string) *traffictrace.Spec {
	return &traffictrace.Spec{Selectors: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: service}}}, Conf: &traffictrace.Conf{Backend: backend}}
}

// spansOf returns the service in the spans of a listener, empty if it sends none.
func spansOf(t *testing.T, r *resource.Resource) string {
	t.Helper()
	m, config := new(hcmv3.HttpConnectionManager), new(tracev3.DatadogConfig)
	l := load(t, r, new(listenerv3.Listener))
	if err := l.GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(m); err != nil {
		t.Fatal(err)
	}
	if m.GetTracing() == nil {
		return ""
	}
	if err := m.GetTracing().GetProvider().GetTypedConfig().UnmarshalTo(config); err != nil {
		t.Fatal(err)
	}
	return config.GetServiceName()
}

// TestOutboundsSayWhoseTheyAre: proxies of two services share their outbounds until a policy
// asks whose they are.
func TestOutboundsSayWhoseTheyAre(t *testing.T) {
	const out = "outbound:127.0.0.1:10001"
	w := newWorld(t)
	w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.3", "web", "http", "backend"))
	w.put(mesh.Dataplanes, meshName, "jobs-1", dataplane("127.0.0.4", "jobs", "http", "backend"))
	w.put(mesh.Dataplanes, meshName, "backend-1", dataplane("127.0.0.2", "backend", "http"))
	w.put(mesh.Meshes, "", meshName, &mesh.Mesh{Tracing: &mesh.Tracing{Backends: []mesh.TracingBackend{agent("127.0.0.1")}}})
	w.joined("web-1", "jobs-1")
	get := func(name, listener string) *resource.Resource {
		return w.planner.Set(name).Get(resource.Listener, listener)
	}
	if get("web-1", out) != get("jobs-1", out) {
		t.Error("nobody asks, and the outbounds are not shared")
	}
	w.put(traffictrace.Kind, meshName, "all", traced("*", "agent"))
	w.settle()
	for name, want := range map[string]string{"web-1": "web", "jobs-1": "jobs"} {
		if got := spansOf(t, get(name, out)); got != want {
			t.Errorf("the outbound of %s is of %q", name, got)
		}
	}
	if got := spansOf(t, get("jobs-1", "inbound:127.0.0.4:8080")); got != "jobs" {
		t.Errorf("the inbound is of %q", got)
	}
	if w.planner.Set("web-1").Get(resource.Cluster, "@tracing:agent") == nil {
		t.Error("the cluster of the collector is missing")
	}
	w.drop(traffictrace.Kind, "all")
	w.settle()
	if get("web-1", out) != get("jobs-1", out) || spansOf(t, get("web-1", out)) != "" || w.planner.Set("web-1").Get(resource.Cluster, "@tracing:agent") != nil {
		t.Error("the policy is gone, and something of it stays")
	}
}

// TestProblemsOfWholeProxiesAreSaidOnce, however many inbounds the proxy has, and even if it
// has none.
func TestProblemsOfWholeProxiesAreSaidOnce(t *testing.T) {
	w := newWorld(t)
	d := dataplane("127.0.0.3", "web", "http", "backend")
	second := d.Networking.Inbound[0]
	second.Port, second.ServicePort = 8081, 9081
	d.Networking.Inbound = append(d.Networking.Inbound, second)
	w.put(mesh.Dataplanes, meshName, "web-1", d)
	w.put(mesh.Dataplanes, meshName, "edge-1", &mesh.Dataplane{Networking: &mesh.Networking{
		Address: "127.0.0.4", Gateway: &mesh.Gateway{Tags: mesh.Tags{mesh.TagService: "edge"}},
	}})
	w.put(traffictrace.Kind, meshName, "all", traced("*", "missing"))
	w.joined("web-1", "edge-1")
	said := func(name string) (out []string) {
		for _, f := range w.planner.Failures(name) {
			if strings.Contains(f.Err.Error(), "nothing is traced") {
				out = append(out, f.Cell+": "+f.Err.Error())
			}
		}
		return out
	}
	want := []string{`TrafficTrace all: the mesh has no tracing backend "missing": nothing is traced`}
	for _, name := range []string{"web-1", "edge-1"} {
		if got := said(name); !slices.Equal(got, want) {
			t.Errorf("%s: %q", name, got)
		}
	}
	m := &mesh.Mesh{Tracing: &mesh.Tracing{Backends: []mesh.TracingBackend{agent("127.0.0.1")}}}
	m.Tracing.Backends[0].Name = "missing"
	w.put(mesh.Meshes, "", meshName, m)
	w.settle()
	if got := said("edge-1"); got != nil {
		t.Errorf("there is a backend now, and still %q", got)
	}
}

// TestMeshTraceDecides: where one is chosen, no TrafficTrace counts, in any part of the proxy.
func TestMeshTraceDecides(t *testing.T) {
	w := newWorld(t)
	w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.3", "web", "http", "backend"))
	w.put(mesh.Dataplanes, meshName, "backend-1", dataplane("127.0.0.2", "backend", "http"))
	w.put(mesh.Meshes, "", meshName, &mesh.Mesh{Tracing: &mesh.Tracing{Backends: []mesh.TracingBackend{agent("127.0.0.1")}}})
	w.put(traffictrace.Kind, meshName, "all", traced("*", "agent"))
	w.put(meshtrace.Kind, meshName, "web", &meshtrace.Resource{Spec: &meshtrace.Spec{
		TargetRef: &target.Ref{Kind: target.Service, Name: "web"},
		Default:   &meshtrace.Conf{Backends: []meshtrace.Backend{{Datadog: &meshtrace.Datadog{URL: "http://127.0.0.2:8126", SplitService: new(true)}}}},
	}})
	w.joined("web-1", "backend-1")
	has := func(name, cluster string) bool { return w.planner.Set(name).Get(resource.Cluster, cluster) != nil }
	if has("web-1", "@tracing:agent") || !has("web-1", "@meshtrace") || !has("backend-1", "@tracing:agent") || has("backend-1", "@meshtrace") {
		t.Error("a proxy has the wrong collector")
	}
	for listener, want := range map[string]string{"outbound:127.0.0.1:10001": "web_OUTBOUND_backend", "inbound:127.0.0.3:8080": "web_INBOUND"} {
		if got := spansOf(t, w.planner.Set("web-1").Get(resource.Listener, listener)); got != want {
			t.Errorf("%s is of %q", listener, got)
		}
	}
	w.drop(meshtrace.Kind, "web")
	w.settle()
	if !has("web-1", "@tracing:agent") || has("web-1", "@meshtrace") || spansOf(t, w.planner.Set("web-1").Get(resource.Listener, "inbound:127.0.0.3:8080")) != "web" {
		t.Error("the TrafficTrace does not count again")
	}
}
