package mesh_test

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// TestAMeshWithoutRootsHasNoGatewaysForOthers: callers could not judge them, so they learn of neither the
// places nor the names.
func TestAMeshWithoutRootsHasNoGatewaysForOthers(t *testing.T) {
	for _, at := range []*mesh.CrossEndpoint{nil, {Address: "10.0.0.1"}} {
		for roots, want := range map[string]int{"": 0, "roots": 1} {
			c := &mesh.Crossing{Mesh: "office", Roots: []byte(roots)}
			c.Add("door", &mesh.GatewayListener{Port: 80, Hostname: "door.example"}, at)
			if places, own, others := c.Locates(), c.CrossHosts(), c.Offered(); len(places) != want || len(own) != want || len(others) != want {
				t.Errorf("with the roots %q there are the places %v and the names %v and %v", roots, places, own, others)
			}
		}
	}
}
