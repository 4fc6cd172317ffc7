package sidecar_test

import (
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy/meshtokenauth"
	"github.com/meshgate/meshgate/xds/resource"
)

// tokensOfBackend demands tokens from all callers of backend.
const tokensOfBackend = `
type: MeshTokenAuth
mesh: demo
name: tokens
spec:
  targetRef: {kind: MeshService, name: backend}
  from: [{targetRef: {kind: Mesh}, default: {config: {global_credentials: true}}}]
`

// TestGuardedWorkloads: if an inbound of a transparent proxy demands tokens, nobody reaches
// its workload by the workload's own port. Without a listener, that port would be passed on in
// clear, unless the mesh is strict.
func TestGuardedWorkloads(t *testing.T) {
	const guard = "inbound:127.0.0.1:9080"
	for name, tc := range map[string]struct {
		mode   string
		change func(*mesh.Dataplane)
		want   bool
	}{
		"in clear":                  {"", func(*mesh.Dataplane) {}, true},
		"permissive":                {mesh.ModePermissive, func(*mesh.Dataplane) {}, true},
		"strict, which passes none": {mesh.ModeStrict, func(*mesh.Dataplane) {}, false},
		"one port":                  {"", func(d *mesh.Dataplane) { d.Networking.Inbound[0].ServicePort = 8080 }, false},
		"a workload on loopback":    {"", func(d *mesh.Dataplane) { d.Networking.Inbound[0].ServiceAddress = "127.0.0.1" }, true},
		"no HTTP, no tokens":        {"", func(d *mesh.Dataplane) { d.Networking.Inbound[0].Tags[mesh.TagProtocol] = "tcp" }, false},
		"nothing is redirected":     {"", func(d *mesh.Dataplane) { d.Networking.TransparentProxying.RedirectPortInbound = 0 }, false},
		"another service":           {"", func(d *mesh.Dataplane) { d.Networking.Inbound[0].Tags[mesh.TagService] = "other" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tc.mode != "" {
				w.under(tc.mode)
			}
			d := transparent("127.0.0.1", "backend", "http")
			tc.change(d)
			w.put(mesh.Dataplanes, meshName, "backend-1", d)
			w.joined("backend-1")
			shut := func() bool {
				w.settle()
				r := w.planner.Set("backend-1").Get(resource.Listener, guard)
				if r == nil {
					return false
				}
				l := load(t, r, new(listenerv3.Listener))
				var end tcpv3.TcpProxy
				if err := l.GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(&end); err != nil {
					t.Fatal(err)
				}
				if len(l.GetFilterChains()) != 1 || !strings.HasSuffix(end.GetCluster(), "blackhole") || l.GetBindToPort().GetValue() || l.GetBindToPort() == nil {
					t.Errorf("the guard is %v", l)
				}
				return true
			}
			if shut() {
				t.Error("the port is shut before anything is demanded")
			}
			w.raw(tokensOfBackend)
			if got := shut(); got != tc.want {
				t.Errorf("shut: %t, want %t", got, tc.want)
			}
			w.drop(meshtokenauth.Kind, "tokens")
			if shut() {
				t.Error("the port is shut when nothing is demanded any more")
			}
		})
	}
}

// TestGuardGivesWay: if the workload's port is itself an inbound, the rules of that inbound
// apply.
func TestGuardGivesWay(t *testing.T) {
	w := newWorld(t)
	d := transparent("127.0.0.1", "backend", "http")
	d.Networking.Inbound = append(d.Networking.Inbound, mesh.Inbound{
		Port: 9080, Tags: mesh.Tags{mesh.TagService: "plain", mesh.TagProtocol: "http"},
	})
	w.put(mesh.Dataplanes, meshName, "backend-1", d)
	w.raw(tokensOfBackend)
	set := w.joined("backend-1")
	if f := w.planner.Failures("backend-1"); len(f) != 0 {
		t.Errorf("failures are %+v", f)
	}
	l := load(t, set.Get(resource.Listener, "inbound:127.0.0.1:9080"), new(listenerv3.Listener))
	if name := l.GetFilterChains()[0].GetName(); name == "closed" {
		t.Error("the inbound of the workload's port is closed")
	}
}
