package sidecar_test

import (
	"strconv"
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
// its workload past it, neither by the workload's own port nor by another address of the
// machine. Redirected connections to these would be passed on in clear, unless the mesh is strict.
func TestGuardedWorkloads(t *testing.T) {
	for name, tc := range map[string]struct {
		mode   string
		change func(*mesh.Dataplane)
		want   string
	}{
		"in clear":                  {"", func(*mesh.Dataplane) {}, "8080 9080"},
		"permissive":                {mesh.ModePermissive, func(*mesh.Dataplane) {}, "8080 9080"},
		"strict, which passes none": {mesh.ModeStrict, func(*mesh.Dataplane) {}, "all"},
		"one port":                  {"", func(d *mesh.Dataplane) { d.Networking.Inbound[0].ServicePort = 8080 }, "8080"},
		"a workload on loopback":    {"", func(d *mesh.Dataplane) { d.Networking.Inbound[0].ServiceAddress = "127.0.0.1" }, "8080 9080"},
		"no HTTP, no tokens":        {"", func(d *mesh.Dataplane) { d.Networking.Inbound[0].Tags[mesh.TagProtocol] = "tcp" }, ""},
		"nothing is redirected":     {"", func(d *mesh.Dataplane) { d.Networking.TransparentProxying.RedirectPortInbound = 0 }, "none"},
		"another service":           {"", func(d *mesh.Dataplane) { d.Networking.Inbound[0].Tags[mesh.TagService] = "other" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tc.mode != "" {
				w.under(tc.mode)
			}
			d := transparent("127.0.0.1", "backend", "http")
			d.Networking.TransparentProxying.IPFamilyMode = mesh.IPFamilyDual
			tc.change(d)
			w.put(mesh.Dataplanes, meshName, "backend-1", d)
			w.joined("backend-1")
			expect := func(when, want string) {
				t.Helper()
				w.settle()
				for _, family := range []string{"ipv4", "ipv6"} {
					want := want
					if want != "all" && want != "none" {
						want = strings.TrimSpace(want + " 15006") // its own, in any case
					}
					if got := shut(t, w.planner.Set("backend-1").Get(resource.Listener, "inbound:passthrough:"+family)); got != want {
						t.Errorf("%s: %s shuts %q, not %q", when, family, got, want)
					}
				}
			}
			before := tc.want
			if before != "all" && before != "none" {
				before = ""
			}
			expect("nothing is demanded", before)
			w.raw(tokensOfBackend)
			expect("tokens are demanded", tc.want)
			w.drop(meshtokenauth.Kind, "tokens")
			expect("nothing is demanded any more", before)
		})
	}
}

// shut lists the ports whose connections a listener ends.
func shut(t *testing.T, r *resource.Resource) string {
	t.Helper()
	if r == nil {
		return "none"
	}
	var ports []string
	for _, c := range load(t, r, new(listenerv3.Listener)).GetFilterChains() {
		var to tcpv3.TcpProxy
		if err := c.GetFilters()[0].GetTypedConfig().UnmarshalTo(&to); err != nil {
			t.Fatal(err)
		}
		port := c.GetFilterChainMatch().GetDestinationPort()
		switch ends := strings.HasSuffix(to.GetCluster(), "blackhole"); {
		case ends && port == nil:
			return "all"
		case ends:
			ports = append(ports, strconv.FormatUint(uint64(port.GetValue()), 10))
		case port != nil:
			t.Errorf("connections to port %d are passed on", port.GetValue())
		}
	}
	return strings.Join(ports, " ")
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
