package sidecar_test

import (
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/logsink"
	"github.com/meshgate/meshgate/xds/policy/trafficlog"
	"github.com/meshgate/meshgate/xds/resource"
)

// logFile is a logging backend.
func logFile(path string) mesh.LoggingBackend {
	return mesh.LoggingBackend{Name: "file", Type: mesh.LoggingFile, Conf: map[string]any{"path": path}}
}

// logTo has connections logged to a backend.
func logTo(backend string) *trafficlog.Spec {
	return &trafficlog.Spec{Connection: connection(mesh.AnyValue, mesh.AnyValue), Conf: &trafficlog.Conf{Backend: backend}}
}

// passedLoggers counts the loggers of connections that leave the mesh.
func passedLoggers(t *testing.T, w *world, name string) int {
	t.Helper()
	l, m := load(t, w.planner.Set(name).Get(resource.Listener, "outbound:passthrough:ipv4"), new(listenerv3.Listener)), new(tcpv3.TcpProxy)
	if err := l.GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(m); err != nil {
		t.Fatal(err)
	}
	return len(m.GetAccessLog())
}

// TestPassedConnectionsAreLogged: a policy on pass_through is chosen for what leaves the mesh, and
// follows the mesh and the policies; agents know its sink, and the address of their proxy.
func TestPassedConnectionsAreLogged(t *testing.T) {
	w := newWorld(t)
	web := dataplane("127.0.0.3", "web", "http")
	web.Networking.TransparentProxying = &mesh.TransparentProxying{RedirectPortOutbound: 15001}
	w.put(mesh.Dataplanes, meshName, "web-1", web)
	w.settle()
	w.planner.Join("web-1")
	w.settle()
	check := func(what string, want int) {
		t.Helper()
		w.settle()
		set := w.planner.Set("web-1")
		if got := passedLoggers(t, w, "web-1"); got != want {
			t.Errorf("%s: %d loggers, want %d", what, got, want)
		}
		sink, source := set.Get(resource.Cluster, logsink.Sink{File: "/logs/a.log"}.Name()), set.Get(resource.Cluster, logsink.Source("").GetName())
		if (sink != nil) != (want > 0) || (source != nil) != (want > 0) {
			t.Errorf("%s: agents are told %v, %v", what, sink, source)
		}
	}
	check("no policy", 0)
	spec := logTo("file")
	spec.Destinations = []mesh.Selector{{Match: mesh.Tags{mesh.TagService: mesh.PassThrough}}}
	w.put(trafficlog.Kind, meshName, "passed", spec)
	check("no backend", 0)
	w.put(mesh.Meshes, "", meshName, &mesh.Mesh{Logging: &mesh.Logging{Backends: []mesh.LoggingBackend{logFile("/logs/a.log")}}})
	check("a backend", 1)
	other := logTo("missing")
	other.Destinations = spec.Destinations
	w.put(trafficlog.Kind, meshName, "passed", other)
	check("a missing backend", 0)
	w.put(trafficlog.Kind, meshName, "passed", logTo("missing"))
	check("another backend", 0)
	if f := w.planner.Failures("web-1"); len(f) != 1 {
		t.Errorf("failures are %v", f)
	}
	w.put(trafficlog.Kind, meshName, "passed", logTo("file"))
	check("all services", 1)
	w.drop(trafficlog.Kind, "passed")
	check("the policy is gone", 0)
}
