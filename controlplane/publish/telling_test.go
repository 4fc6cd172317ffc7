package publish

import (
	"errors"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// A planner that panics while it lists its failures does not stop the mesh. What it has
// planned is published, and the failure is listed at the affected proxies. Once the cause
// is fixed, the list recovers without a write.
func TestPlannerThatPanicsWhileItTells(t *testing.T) {
	for call, both := range map[string]bool{"failures of web-1": false, "unserved": true} {
		t.Run(call, func(t *testing.T) {
			nurse(t, func(t *testing.T, p *patient) {
				p.connect("sick.web-1")
				p.fails(call)
				p.connect("sick.web-2")
				rev := p.web("sick", "web-2", "127.0.0.3")
				if !p.settles(rev, time.Second) {
					t.Error("what was planned is not published")
				}
				for dataplane, wants := range map[string]bool{"web-1": true, "web-2": both} {
					fs := p.loop.FailuresOf(MeshScope("sick"), dataplane)
					if _, panicked := failedOf(fs); panicked != wants {
						t.Errorf("failures of %s: %v", dataplane, fs)
					}
				}
				if fs := p.loop.FailuresOf(MeshScope("well"), "web-1"); len(fs) != 0 {
					t.Errorf("failures of the well proxy: %v", fs)
				}
				p.begun(true)
				p.mend()
				time.Sleep(lastPause + time.Second) // virtual
				if fs := p.loop.Failures(); len(fs) != 0 {
					t.Errorf("failures remain: %v", fs)
				}
				if n := len(p.begun(false)); n != 0 {
					t.Errorf("%d plans from nothing for a list", n)
				}
			})
		})
	}
}

// A proxy that joins while every planner panics in Failures is admitted. Its failures are
// listed as soon as the planner can list them.
func TestPlannerThatPanicsWhenAProxyJoins(t *testing.T) {
	nurse(t, func(t *testing.T, p *patient) {
		p.fails("failures of web-1")
		p.connect("sick.web-1")
		if _, panicked := failedOf(p.loop.FailuresOf(MeshScope("sick"), "web-1")); !panicked {
			t.Error("the failure does not show")
		}
		p.mend()
		time.Sleep(lastPause + time.Second) // virtual
		if fs := p.loop.Failures(); len(fs) != 0 {
			t.Errorf("failures remain: %v", fs)
		}
	})
}

// nothing is a planner that has no set for any proxy.
type nothing struct{ sickPlanner }

func (n nothing) Plan() map[string]*resource.Set {
	sets := n.sickPlanner.Plan()
	clear(sets)
	return sets
}

// The planner may also panic when it is asked what a proxy waits for.
func TestPlannerThatPanicsWhileItSaysWhatAProxyAwaits(t *testing.T) {
	nurse(t, func(t *testing.T, p *patient) {
		p.connect("sick.web-2")
		m := p.mesh("sick")
		m.mu.Lock()
		m.planner = nothing{sickPlanner{m.planner.(sickPlanner).sidecarPlanner, p}}
		m.mu.Unlock()
		p.fails("awaits")
		if _, err := p.loop.Connect(t.Context(), "sick.web-1", false); !fault.Is(err, fault.Unavailable) {
			t.Errorf("without a set: %v", err)
		}
	})
}

// failedOf returns the panic among failures.
func failedOf(fs []plan.Failure) (*plan.Failed, bool) {
	for _, f := range fs {
		if failed, ok := errors.AsType[*plan.Failed](f.Err); ok {
			return failed, true
		}
	}
	return nil, false
}
