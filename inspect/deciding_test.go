package inspect

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/selection"
)

// TestBothSidesAgree: a policy is listed for the places at which it is chosen among all policies,
// also where another one decides instead of it, and where a route leads elsewhere.
func TestBothSidesAgree(t *testing.T) {
	const leads = `{"type":"TrafficRoute","mesh":"demo","name":"leads","sources":[{"match":{"mesh.io/service":"*"}}],"destinations":[{"match":{"mesh.io/service":"raw"}}],"conf":{"destination":{"mesh.io/service":"spare"}}}`
	const breaks = `{"type":"CircuitBreaker","mesh":"demo","name":"breaks","sources":[{"match":{"mesh.io/service":"*"}}],"destinations":[{"match":{"mesh.io/service":"spare"}}],"conf":{"thresholds":{"maxConnections":1}}}`
	const permitsRaw = `{"type":"TrafficPermission","mesh":"demo","name":"raw","sources":[{"match":{"mesh.io/service":"api"}}],"destinations":[{"match":{"mesh.io/service":"raw"}}]}`
	web := serving("10.0.0.1", "web", mesh.ProtocolHTTP)
	web.Outbound = []mesh.Outbound{{Port: 10001, Service: "raw"}}
	p := stored(t, &mesh.Mesh{}, map[string]*mesh.Networking{"web-1": web, "raw-1": serving("10.0.0.2", "raw", mesh.ProtocolTCP)},
		append(oneOfEach(t), leads, breaks, permit, permitsRaw, admits)...)
	some := 0
	for _, pol := range p.Policies {
		var names []string
		want := map[string]map[string][]Attachment{}
		if err := p.With(t.Context(), "demo", func(m *view.Mesh) error {
			for c := range m.Policies(pol.Kind) {
				names, want[c.Name] = append(names, c.Name), map[string][]Attachment{}
				for d := range m.Dataplanes() {
					if at := attachments(m, selection.Of(m, p.Policies, d), pol, c.Name); len(at) > 0 {
						want[c.Name][d.ID] = at
						some++
					}
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			got := map[string][]Attachment{}
			if err := p.Chosen(t.Context(), pol.Kind, "demo", name, func(doc any) error {
				for _, item := range doc.(ProxyList).Items {
					got[item.Dataplane.Name] = item.Attachments
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want[name], got); d != "" {
				t.Errorf("%s (-want +got):\n%s", pol.Named(name), d)
			}
		}
	}
	if some < 20 {
		t.Errorf("only %d policies are chosen for dataplanes", some)
	}
}
