package publish_test

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// TestDesiredOfGateway: what a gateway should have follows every write, whether it is
// connected, away or was never there.
func TestDesiredOfGateway(t *testing.T) {
	r := start(t, nil)
	r.put(gateway.Services, serviceID, service(9000))
	r.put(gateway.Routes, routeID, route("/a"))
	first, err := r.loop.Desired(r.ctx, nodeA)
	if err != nil {
		t.Fatal(err)
	}
	release := r.connect(nodeA)
	if !first.Equal(r.out.set(nodeA)) {
		t.Error("one that was never there should have something else than one that comes")
	}
	r.put(gateway.Routes, routeID, route("/b"))
	second, err := r.loop.Desired(r.ctx, nodeA)
	if err != nil || second.Equal(first) || !second.Equal(r.out.set(nodeA)) {
		t.Errorf("connected: %v", err)
	}
	release()
	r.put(gateway.Routes, routeID, route("/c"))
	third, err := r.loop.Desired(r.ctx, nodeA)
	sent, _ := r.loop.Last(nodeA)
	if err != nil || third.Equal(second) || !second.Equal(sent) {
		t.Errorf("away: %v", err)
	}
}

// TestDesiredOfProxy does the same for a proxy of a mesh. A proxy without a dataplane is
// unknown.
func TestDesiredOfProxy(t *testing.T) {
	r := start(t, nil)
	store := func(k *model.Kind, scope, name string, spec any) {
		t.Helper()
		if err := r.loop.Settled(r.ctx, storetest.Put(t, r.store, k, scope, name, spec)); err != nil {
			t.Fatal(err)
		}
	}
	store(mesh.Meshes, "", "m", &mesh.Mesh{})
	create := func(name, service string) {
		t.Helper()
		store(mesh.Dataplanes, "m", name, dataplane("127.0.0.1", service, "http"))
	}
	create("a", "web")
	first, err := r.loop.Desired(r.ctx, mesh.NodeID("m", "a"))
	if err != nil {
		t.Fatal(err)
	}
	release := r.connect("m.a")
	if !first.Equal(r.out.set("m.a")) {
		t.Error("one that was never there should have something else than one that comes")
	}
	create("a", "api")
	second, err := r.loop.Desired(r.ctx, "m.a")
	if err != nil || second.Equal(first) || !second.Equal(r.out.set("m.a")) {
		t.Errorf("connected: %v", err)
	}
	release()
	create("a", "app")
	third, err := r.loop.Desired(r.ctx, "m.a")
	if err != nil || third.Equal(second) {
		t.Errorf("away: %v", err)
	}
	if _, err := r.loop.Desired(r.ctx, "m.none"); !fault.Is(err, fault.NotFound) {
		t.Errorf("without a dataplane: %v", err)
	}
	if _, err := r.loop.Desired(r.ctx, "strange"); !fault.Is(err, fault.Invalid) {
		t.Errorf("a name of no node: %v", err)
	}
}
