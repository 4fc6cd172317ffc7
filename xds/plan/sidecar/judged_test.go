package sidecar_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/circuitbreaker"
	"github.com/meshgate/meshgate/xds/policy/traffictrace"
	"github.com/meshgate/meshgate/xds/resource"
)

// crossroads is a mesh with a gateway that others may call, another one that they may not, and callers of a
// gateway of office: one that lists it, and one that reaches whatever there is.
func crossroads(w *world) {
	called(w)
	web := dataplane("127.0.0.3", "web", "http", "backend")
	web.Networking.Outbound = append(web.Networking.Outbound, mesh.Outbound{Port: 10002, Tags: mesh.Tags{mesh.TagService: "door", mesh.TagMesh: "office"}})
	w.put(mesh.Dataplanes, meshName, "web-1", web)
	w.put(mesh.Dataplanes, meshName, "all-1", transparent("127.0.0.4", "all", "http"))
	plain := entrance("127.0.0.52")
	plain.Networking.Gateway.Tags[mesh.TagService] = "plain"
	w.put(mesh.Dataplanes, meshName, "plain-1", plain)
	w.put(mesh.MeshGateways, meshName, "plain", &mesh.MeshGateway{
		Selectors: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "plain"}}},
		Conf:      &mesh.MeshGatewayConf{Listeners: []mesh.GatewayListener{{Port: 18080, Protocol: mesh.ListenerHTTP}}},
	})
	w.put(mesh.Crossings, "", "office", acrossDoor("office", "127.0.0.61"))
	own := crossingOf(meshName, rootCA)
	own.Add("edge", &mesh.GatewayListener{Port: 18080, Hostname: "edge.example"}, nil)
	w.put(mesh.Crossings, "", meshName, own)
	for host, a := range map[string]string{"backend.mesh": "240.0.0.1", "web.mesh": "240.0.0.2", "all.mesh": "240.0.0.3", "door.example": "240.0.0.4", "edge.example": "240.0.0.5"} {
		w.put(mesh.Addresses, meshName, host, &mesh.Address{Address: a})
	}
	w.settle()
	w.joined("edge-1", "plain-1", "backend-1", "web-1", "all-1")
}

// judges lists the roots of others that a proxy has, each of which it has to be allowed, too.
func (w *world) judges(t *testing.T, name string) (out []string) {
	t.Helper()
	set := w.planner.Set(name)
	for _, secret := range []string{mesh.SecretCrossing, mesh.SecretCA("office"), mesh.SecretCA("third")} {
		offered := set.AllowsSecret(secret)
		if sent := set.Get(resource.Secret, secret) != nil; sent != offered {
			t.Errorf("%s is sent %s: %t, and may have it: %t", name, secret, sent, offered)
		}
		if offered {
			out = append(out, secret)
		}
	}
	if !set.AllowsSecret(mesh.SecretCA(meshName)) || set.Get(resource.Secret, mesh.SecretCA(meshName)) == nil {
		t.Errorf("%s does not have the roots of its mesh", name)
	}
	return out
}

// TestRootsOfOthersAreForThoseWhoJudgeByThem: the roots of all meshes are for gateways that other meshes
// may call, and those of another mesh for who calls its gateways. Nobody else is offered them, and new
// ones move nobody else.
func TestRootsOfOthersAreForThoseWhoJudgeByThem(t *testing.T) {
	w := newWorld(t)
	crossroads(w)
	for name, want := range map[string][]string{
		"edge-1": {mesh.SecretCrossing}, "plain-1": nil, "backend-1": nil, "web-1": {mesh.SecretCA("office")}, "all-1": {mesh.SecretCA("office")},
	} {
		if got := w.judges(t, name); !slices.Equal(got, want) {
			t.Errorf("%s judges by %v, and should by %v", name, got, want)
		}
	}
	moves := func(what string, of *mesh.Crossing, want ...string) {
		t.Helper()
		w.put(mesh.Crossings, "", of.Mesh, of)
		change := w.take()
		w.planner.Update(change.State, change.Keys, change.All)
		if got := w.planner.Loose(); !slices.Equal(got, want) {
			t.Errorf("%s: %v are looked at, and not %v", what, got, want)
		}
		moved := w.planner.Plan()
		for _, name := range want {
			if moved[name] == nil {
				t.Errorf("%s: %s has what it had", what, name)
			}
		}
		if len(moved) != len(want) {
			t.Errorf("%s: %d proxies have others, and not %v", what, len(moved), want)
		}
		if err := w.planner.Check(); err != nil {
			t.Fatal(err)
		}
	}
	moves("a root of a mesh that calls", crossingOf("third", rootCA+"\n"), "edge-1")
	office := acrossDoor("office", "127.0.0.61")
	office.Roots = []byte(rootCA + "\n")
	moves("a root of a mesh that calls and is called", office, "all-1", "edge-1", "web-1")
	moves("another endpoint", func() *mesh.Crossing {
		c := acrossDoor("office", "127.0.0.62")
		c.Roots = office.Roots
		return c
	}(), "all-1", "web-1")
}

// TestRootsComeWithWhatJudgesByThem: who begins to judge by the roots of others has them in the same set
// as the listener or the cluster, and keeps them no longer.
func TestRootsComeWithWhatJudgesByThem(t *testing.T) {
	w := newWorld(t)
	crossroads(w)
	const listener = "gateway:127.0.0.52:18080"
	gateway := func(cross bool) *mesh.MeshGateway {
		return &mesh.MeshGateway{
			Selectors: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "plain"}}},
			Conf:      &mesh.MeshGatewayConf{Listeners: []mesh.GatewayListener{{Port: 18080, Protocol: mesh.ListenerHTTP, CrossMesh: cross}}},
		}
	}
	for _, cross := range []bool{true, false, true} {
		w.put(mesh.MeshGateways, meshName, "plain", gateway(cross))
		if moved := w.settle(); len(moved) != 1 || !moved["plain-1"] {
			t.Errorf("a listener for other meshes moved %v", moved)
		}
		if got := w.judges(t, "plain-1"); (len(got) == 1 && got[0] == mesh.SecretCrossing) != cross || w.planner.Set("plain-1").Get(resource.Listener, listener) == nil {
			t.Errorf("with a listener for other meshes (%t) the gateway judges by %v", cross, got)
		}
	}
	calls := func(office bool) {
		web := dataplane("127.0.0.3", "web", "http", "backend")
		if office {
			web.Networking.Outbound = append(web.Networking.Outbound, mesh.Outbound{Port: 10002, Tags: mesh.Tags{mesh.TagService: "door", mesh.TagMesh: "office"}})
		}
		w.put(mesh.Dataplanes, meshName, "web-1", web)
		if moved := w.settle(); !moved["web-1"] {
			t.Errorf("another outbound moved %v", moved)
		}
		var there bool
		for c := range w.planner.Set("web-1").Each(resource.Cluster) {
			there = there || c.Name == "door@@office"
		}
		if got := w.judges(t, "web-1"); there != office || (len(got) == 1) != office {
			t.Errorf("a caller (%t, with a cluster: %t) judges by %v", office, there, got)
		}
	}
	for _, office := range []bool{false, true, false} {
		calls(office)
	}
}

// TestRootsGoWithWhatATemplateRemoves: a template that takes a listener or cluster away takes the roots
// by which it judged.
func TestRootsGoWithWhatATemplateRemoves(t *testing.T) {
	w := newWorld(t)
	crossroads(w)
	for service, removed := range map[string]string{"edge": "listener: {operation: remove}", "web": "cluster: {operation: remove, match: {name: 'door@@office'}}"} {
		w.raw(fmt.Sprintf(`
type: ProxyTemplate
mesh: %s
name: no-%s
selectors: [{match: {mesh.io/service: %s}}]
conf:
  imports: [default-proxy]
  modifications: [{%s}]
`, meshName, service, service, removed))
	}
	change := w.take()
	w.planner.Update(change.State, change.Keys, change.All)
	w.planner.Plan() // routes lead to a cluster that is gone: that is the template's
	for _, name := range []string{"edge-1", "web-1"} {
		if got := w.judges(t, name); len(got) > 0 {
			t.Errorf("%s judges by %v, and has nothing that does", name, got)
		}
	}
}

// TestRootsOfOthersBesideNewRootsOfTheMesh: what another mesh has withdrawn ends connections at gateways
// also if the mesh itself has new roots in the same moment.
func TestRootsOfOthersBesideNewRootsOfTheMesh(t *testing.T) {
	w := newWorld(t)
	crossroads(w)
	third := crossingOf("third", rootCA)
	third.Withdrawn = 3
	own := trust("r1")
	own.Roots = append(own.Roots, "\nmore"...)
	w.put(mesh.Trusts, meshName, meshName, own)
	w.put(mesh.Crossings, "", "third", third)
	w.settle()
}

// TestWhatIsKeptKeepsItsRoots: a listener or cluster that cannot be made anew stays as it was, and what
// it judges by stays with it and follows the other meshes.
func TestWhatIsKeptKeepsItsRoots(t *testing.T) {
	policies := spoiling()
	for i, p := range policies {
		if p.Kind == traffictrace.Kind {
			spoils := *p
			spoils.Outbound = func(*draft.Outbound, *policy.Selection) error { return errors.New("a mistake") }
			policies[i] = &spoils
		}
	}
	w := newWorldOf(t, policies)
	crossroads(w)
	w.gateway(t, "  - {port: 18080, protocol: HTTP, hostname: edge.example, crossMesh: true}\n  - {port: 18081, protocol: HTTP}\n")
	w.settle()
	m := mtls(mesh.ModeStrict)
	m.Tracing = &mesh.Tracing{Backends: []mesh.TracingBackend{agent("127.0.0.1")}}
	w.put(mesh.Meshes, "", meshName, m)
	w.put(traffictrace.Kind, meshName, "broken", traced("edge", "agent"))
	w.put(circuitbreaker.Kind, meshName, "broken", breaker("web", mesh.AnyValue, 1))
	w.replan()
	// What is kept at one port stays beside what goes at another one.
	w.gateway(t, "  - {port: 18080, protocol: HTTP, hostname: edge.example, crossMesh: true}\n")
	w.replan()
	for name, want := range map[string]string{"edge-1": mesh.SecretCrossing, "web-1": mesh.SecretCA("office")} {
		if f := w.planner.Failures(name); !slices.ContainsFunc(f, func(f plan.Failure) bool { return f.Kept }) {
			t.Fatalf("nothing of %s is kept: %v", name, f)
		}
		if got := w.judges(t, name); !slices.Equal(got, []string{want}) {
			t.Errorf("%s judges by %v, and not by %s", name, got, want)
		}
	}
	before := map[string]*resource.Set{"edge-1": w.planner.Set("edge-1"), "web-1": w.planner.Set("web-1")}
	office := acrossDoor("office", "127.0.0.61")
	office.Roots = []byte(rootCA + "\n")
	w.put(mesh.Crossings, "", "office", office)
	w.replan()
	for name, secret := range map[string]string{"edge-1": mesh.SecretCrossing, "web-1": mesh.SecretCA("office")} {
		if now := w.planner.Set(name).Get(resource.Secret, secret); now == nil || now.Version == before[name].Get(resource.Secret, secret).Version {
			t.Errorf("%s does not have the new root of office", name)
		}
	}
}
