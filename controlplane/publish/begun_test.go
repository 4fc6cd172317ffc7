package publish

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/resource"
)

// If a control plane cannot be read, one inbound of a connected sidecar refuses requests.
// The sidecar is still planned like every other proxy: changes of its Dataplane and of
// others reach it, even from a planner that started from nothing, and the inbound keeps
// refusing. Only a proxy that has no configuration yet waits.
func TestHeldSidecarIsPlanned(t *testing.T) {
	for name, anew := range map[string]bool{"another shape": false, "another planner": true} {
		t.Run(name, func(t *testing.T) {
			betweenScopes(t, func(_ *testing.T, b *between) {
				b.rows.spoil(model.DefaultControlPlane, true)
			}, func(t *testing.T, b *between) {
				b.connect("m.web-1")
				b.connect("m.free-1")
				b.demand(model.DefaultControlPlane)
				time.Sleep(time.Second)
				b.expect("when it is demanded", "m.web-1", "refuses")
				if anew {
					b.replan("m")
				}
				for _, port := range []uint32{8081, 8082} {
					if rev := b.serves("web-1", port); !b.settles(rev, time.Second) {
						t.Error("the mesh is held up")
					}
					b.expect("when it has changed", "m.web-1", "refuses")
					if !b.listens("m.web-1", port) {
						t.Errorf("the connected proxy does not listen on port %d", port)
					}
					b.web("m", "web-2", "127.0.0.2")
					if _, err := b.loop.Connect(t.Context(), "m.web-2", false); !fault.Is(err, fault.Unavailable) {
						t.Errorf("a proxy that has nothing yet: %v", err)
					}
					b.serves("web-3", port) // of the same class
					if _, err := b.loop.Connect(t.Context(), "m.web-3", false); !fault.Is(err, fault.Unavailable) {
						t.Errorf("a proxy of the same class that has nothing yet: %v", err)
					}
				}
				b.rows.spoil(model.DefaultControlPlane, false)
				time.Sleep(time.Minute)
				b.expect("when it can be read", "m.web-1", "checks")
				b.connect("m.web-3")
				b.expect("when it can be read", "m.web-3", "checks")
			})
		})
	}
}

// serves makes a dataplane serve web, and another service on a port.
func (b *between) serves(name string, port uint32) uint64 {
	address := "127.0.0.1"
	if name != "web-1" {
		address = "127.0.0.3"
	}
	return b.put(mesh.Dataplanes, "m", name, &mesh.Dataplane{Networking: &mesh.Networking{Address: address, Inbound: []mesh.Inbound{
		{Port: 8080, Tags: mesh.Tags{mesh.TagService: "web", mesh.TagProtocol: "http"}},
		{Port: port, Tags: mesh.Tags{mesh.TagService: "more", mesh.TagProtocol: "http"}},
	}}})
}

// listens reports whether a proxy has a listener for port 8080 and one for another port.
func (b *between) listens(node string, port uint32) bool {
	set := b.snaps.Get(node)
	return set.Get(resource.Listener, "inbound:127.0.0.1:8080") != nil && set.Get(resource.Listener, fmt.Sprint("inbound:127.0.0.1:", port)) != nil
}

// replan gives a mesh a planner that starts from nothing, as after a panic.
func (b *between) replan(meshName string) {
	m := b.mesh(meshName)
	m.mu.Lock()
	m.planner = nil
	m.signal()
	m.mu.Unlock()
	time.Sleep(time.Second)
	synctest.Wait()
}
