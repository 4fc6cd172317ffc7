package assembly

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// TestProxiesOfTheZoneAreListed: after a start, and after more events than the store remembers, those
// of the own zone that exist are nodes that may connect, and no others.
func TestProxiesOfTheZoneAreListed(t *testing.T) {
	dir := t.TempDir()
	var cp *ControlPlane
	place := func(k *model.Kind, name string, spec any) { storetest.Place(t, cp.store, k, "", name, spec) }
	listed := func(when string, want ...string) {
		t.Helper()
		var got []string
		for _, n := range cp.mesh.insights.Nodes() {
			if strings.HasPrefix(n.ID, "zone/") {
				got = append(got, n.ID)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}

	cp = openIn(t, dir) // nobody follows the store
	place(mesh.ZoneIngresses, "in", &mesh.ZoneIngress{})
	place(mesh.ZoneIngresses, "theirs", &mesh.ZoneIngress{Zone: "other"})
	place(mesh.ZoneEgresses, "out", &mesh.ZoneEgress{})
	listed("before")
	cp.close(t.Context())

	cp = openIn(t, dir)
	defer func() { cp.close(t.Context()) }()
	listed("after a start", "zone/egress/out", "zone/ingress/in")

	place(mesh.ZoneIngresses, "late", &mesh.ZoneIngress{})
	place(mesh.ZoneIngresses, "theirs", &mesh.ZoneIngress{})
	place(mesh.ZoneEgresses, "out", nil)
	if err := cp.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	listed("after a look at everything", "zone/ingress/in", "zone/ingress/late", "zone/ingress/theirs")
}
