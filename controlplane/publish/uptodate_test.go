package publish

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
)

// TestWhoCannotBePlannedIsTold: who asks for what a proxy should have learns at once why its mesh
// cannot be planned, whatever was written last, and nobody else waits for that mesh.
func TestWhoCannotBePlannedIsTold(t *testing.T) {
	nurse(t, func(t *testing.T, p *patient) {
		defer p.connect("sick.web-1")()
		defer p.connect("well.web-1")()
		p.fails("plan")
		p.web("sick", "web-2", "127.0.0.3")
		synctest.Wait()
		p.web("well", "web-2", "127.0.0.3") // what was written last is about another mesh
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		for scope, sick := range map[string]bool{"sick": true, "well": false} {
			err := p.loop.UpToDate(ctx, MeshScope(scope))
			_, desired := p.loop.Desired(ctx, mesh.NodeID(scope, "web-1"))
			for _, err := range []error{err, desired} {
				if (err != nil) != sick || sick && (!fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "the planner is sick")) {
					t.Errorf("%s: %v", scope, err)
				}
			}
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("it took %s", took)
		}
		p.mend()
		p.web("sick", "web-2", "127.0.0.4")
		if _, err := p.loop.Desired(ctx, mesh.NodeID("sick", "web-1")); err != nil {
			t.Errorf("after the cause is gone and something was written: %v", err)
		}
	})
}

// TestVariantThatCannotBePlannedIsItsOwn: gateways whose parameters cannot be planned keep no
// other gateway of their control plane from learning what it should have.
func TestVariantThatCannotBePlannedIsItsOwn(t *testing.T) {
	nurse(t, func(t *testing.T, p *patient) {
		defer p.connect("cp/default/a")()
		defer p.connect("cp/default/b")()
		p.badPort.Store(9000)
		p.put(gateway.Services, model.DefaultControlPlane, "6f1c9f7b-4b6e-4d0a-8f55-0d3a1b2c3d4e", &gateway.Service{Name: "shop", Host: "127.0.0.1", Port: 9000, Protocol: "http"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		if _, err := p.loop.Desired(ctx, "cp/default/a"); err != nil {
			t.Errorf("a well gateway: %v", err)
		}
		if _, err := p.loop.Desired(ctx, "cp/default/b"); err == nil || !strings.Contains(err.Error(), "the planner is sick") {
			t.Errorf("a sick gateway: %v", err)
		}
		if err := p.loop.UpToDate(ctx, ControlPlaneScope(model.DefaultControlPlane)); err == nil || !strings.Contains(err.Error(), "the planner is sick") {
			t.Errorf("the control plane: %v", err)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// mistaken is a planner that panics, once: after that there is another one.
type mistaken struct{ zonePlanner }

func (mistaken) Update(*view.Zone) { panic("a mistake") }

// TestZoneThatCannotBePlannedIsTold: who asks for what a proxy of the zone should have learns at once
// why the zone cannot be planned.
func TestZoneThatCannotBePlannedIsTold(t *testing.T) {
	nurse(t, func(t *testing.T, p *patient) {
		ingress := func(port uint32) any {
			return &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Address: "127.0.0.1", Port: port}}
		}
		p.put(mesh.ZoneIngresses, "", "in", ingress(10001))
		node := mesh.ZoneNodeID(mesh.ProxyIngress, "in")
		defer p.connect(node)()
		z := p.loop.openedZone()
		z.mu.Lock()
		z.planners[mesh.ProxyEgress] = mistaken{z.planners[mesh.ProxyEgress]}
		z.mu.Unlock()
		p.put(mesh.ZoneIngresses, "", "in", ingress(10002))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		if _, err := p.loop.Desired(ctx, node); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "a mistake") {
			t.Errorf("a zone that cannot be planned: %v", err)
		}
		if took := time.Since(begin); took > minWindow { // in which writes are gathered
			t.Errorf("it took %s", took)
		}
		time.Sleep(time.Minute)
		if _, err := p.loop.Desired(t.Context(), node); err != nil {
			t.Errorf("after another attempt: %v", err)
		}
	})
}
