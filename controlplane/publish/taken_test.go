package publish

import (
	"testing"
	"testing/synctest"
	"time"

	gatewaykinds "github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/resource"
)

// slow is a planner whose plans wait until end is closed.
type slow struct {
	sidecarPlanner
	end chan struct{}
}

func (s slow) Plan() map[string]*resource.Set {
	<-s.end
	return s.sidecarPlanner.Plan()
}

// A write of a control plane is settled when the meshes that look at it have taken it. A
// newer revision of the mesh is not enough: a control plane whose view fails does not bound
// the mesh, and a look that begins in the meantime may find an old state.
func TestMeshHasTakenWhatItLooksAt(t *testing.T) {
	for name, looks := range map[string]bool{"that looks": true, "of which a proxy begins to look": false} {
		t.Run(name, func(t *testing.T) {
			betweenScopes(t, func(_ *testing.T, b *between) {
				b.demand(model.DefaultControlPlane)
			}, func(t *testing.T, b *between) {
				b.connect("m.free-1")
				if looks {
					b.connect("m.web-1")
				}
				synctest.Wait() // the control plane was read once: only then its view can fail
				b.rows.spoil(model.DefaultControlPlane, true)
				rev := b.put(gatewaykinds.Plugins, model.DefaultControlPlane, outsidePlugin, &gatewaykinds.Plugin{
					Name: gatewaykinds.PluginOAuth2, Enabled: false, Config: []byte(`{"auth_header_name":"authorization","global_credentials":true}`),
				})
				time.Sleep(time.Second)
				if newer := b.web("m", "web-2", "127.0.0.2"); !b.settles(newer, time.Second) {
					t.Fatal("a view that fails holds up a mesh")
				}
				if !looks {
					b.connect("m.web-1")
				}
				b.expect("while the view fails", "m.web-1", "checks")
				end := make(chan struct{})
				m := b.mesh("m")
				m.mu.Lock()
				m.planner = slow{m.planner, end}
				m.mu.Unlock()
				b.rows.spoil(model.DefaultControlPlane, false)
				time.Sleep(time.Minute)
				synctest.Wait()
				if b.settles(rev, time.Second) {
					t.Error("it is settled before the mesh has it")
				}
				b.expect("while it is planned", "m.web-1", "checks")
				close(end)
				if !b.settles(rev, time.Second) {
					t.Error("it is not settled when the mesh has it")
				}
				b.expect("when it is planned", "m.web-1", "refuses")
			})
		})
	}
}
