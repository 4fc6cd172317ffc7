package assembly

import (
	"slices"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	xds "github.com/meshgate/meshgate/xds/server"
)

const (
	deletedPlane = "10000000-0000-4000-8000-000000000000"
	otherPlane   = "20000000-0000-4000-8000-000000000000"
)

// enrolGateways stores two control planes with a gateway each, which was connected, and one of the default
// control plane.
func enrolGateways(t *testing.T, cp *ControlPlane) (nodes []string) {
	t.Helper()
	for _, plane := range []string{deletedPlane, otherPlane, model.DefaultControlPlane} {
		if plane != model.DefaultControlPlane {
			storetest.Place(t, cp.store, cloud.ControlPlanes, "", plane, &cloud.ControlPlane{Name: "team-" + plane[:1], ClusterType: cloud.TypeHybrid, AuthType: "pinned_client_certs"})
		}
		storetest.Place(t, cp.store, gateway.Instances, plane, "gw", &gateway.Instance{Listen: "127.0.0.1", HTTPPort: 8000, HTTPSPort: 8443, ControlPlane: "127.0.0.1:5678"})
		node := identity.GatewayNode(plane, "gw")
		cp.mesh.insights.Connected(xds.Event{Node: node, Stream: 1})
		cp.mesh.insights.Disconnected(xds.Event{Node: node, Stream: 1})
		nodes = append(nodes, node)
	}
	return nodes
}

// expectGateways demands that these gateways are known, and no others.
func expectGateways(t *testing.T, when string, cp *ControlPlane, want ...string) {
	t.Helper()
	var got []string
	for _, n := range cp.mesh.insights.Nodes() {
		got = append(got, n.ID)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: known are %v, want %v", when, got, want)
	}
}

// TestGatewaysGoWithTheirControlPlane: nothing is remembered of the gateways of a deleted control plane.
// Otherwise they would be away for ever, and the key of their tokens could not be deleted.
func TestGatewaysGoWithTheirControlPlane(t *testing.T) {
	for name, deleted := range map[string]func(*running){
		"the deletion is told": func(r *running) {
			r.happened(r.t.Context(), store.Event{Op: store.Deleted, Key: model.Key{Kind: cloud.ControlPlanes.Name, Name: deletedPlane}})
		},
		"the deletion is missed": func(r *running) {
			if err := r.reconcile(r.t.Context()); err != nil {
				r.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := startRunning(t, func(*running, *xds.Config) {})
			nodes := enrolGateways(t, r.ControlPlane)
			for _, node := range nodes {
				r.uses.Streamed(node, "key", time.Now().Add(time.Hour))
				r.roots.set(node, []byte("roots"))
			}
			expectGateways(t, "before", r.ControlPlane, nodes...)
			storetest.Place(t, r.store, cloud.ControlPlanes, "", deletedPlane, nil)
			deleted(r)
			expectGateways(t, "after", r.ControlPlane, nodes[1:]...)
			if users := r.uses.Of("cp/", "key"); !slices.Equal(users, slices.Sorted(slices.Values(nodes[1:]))) {
				t.Errorf("the key is in use by %v", users)
			}
			if r.roots.has(nodes[0], []byte("roots")) || !r.roots.has(nodes[1], []byte("roots")) {
				t.Error("of the deleted one it is known which roots it has, or of another one it is not")
			}
		})
	}
}

// TestGatewaysOfADeletedControlPlaneAtTheStart: a process that ends before it could forget the gateways of a
// control plane leaves their rows behind. The next one does not list them.
func TestGatewaysOfADeletedControlPlaneAtTheStart(t *testing.T) {
	dir := t.TempDir()
	cp := openIn(t, dir) // nobody follows the store
	nodes := enrolGateways(t, cp)
	storetest.Place(t, cp.store, cloud.ControlPlanes, "", deletedPlane, nil)
	expectGateways(t, "before", cp, nodes...)
	cp.close(t.Context())
	for range 2 { // the second start finds no row, either
		cp = openIn(t, dir)
		expectGateways(t, "after a start", cp, nodes[1:]...)
		cp.close(t.Context())
	}
}
