package ingress_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan/ingress"
	"github.com/meshgate/meshgate/xds/plan/passing/passingtest"
)

// TestServerNames: an ingress lets in what is for services of meshes with mutual TLS in its zone.
func TestServerNames(t *testing.T) {
	z := passingtest.New(t, ingress.New)
	web := mesh.Tags{mesh.TagService: "web"}
	z.Put(mesh.Meshes, "", "shop", passingtest.Secured())
	z.Put(mesh.Meshes, "", "plain", &mesh.Mesh{})
	z.Put(mesh.Dataplanes, "shop", "web-1", passingtest.Dataplane("10.0.0.1", web))
	z.Put(mesh.Dataplanes, "plain", "web-1", passingtest.Dataplane("10.0.0.2", web))
	z.Same("without an ingress")
	z.Put(mesh.ZoneIngresses, "", "in", passingtest.Ingress())
	both := []string{"web{mesh=shop,mesh.io/zone=west}", "web{mesh=shop}"}
	z.Same("with an ingress", both...)
	// An ingress of another zone has services, which must not be reached from here: connections
	// would go in circles.
	z.Put(mesh.ZoneIngresses, "", "other", &mesh.ZoneIngress{
		Zone: "east", Networking: &mesh.ZoneIngressNetworking{AdvertisedAddress: "10.0.0.9", AdvertisedPort: 1},
		AvailableServices: []mesh.AvailableService{{Mesh: "shop", Instances: 1, Tags: mesh.Tags{mesh.TagService: "far"}}},
	})
	z.Same("with an ingress of another zone", both...)
	notReady := passingtest.Dataplane("10.0.0.1", web)
	notReady.Networking.Inbound[0].State = mesh.StateNotReady
	z.Put(mesh.Dataplanes, "shop", "web-1", notReady)
	z.Same("without an instance that is ready")
	z.Put(mesh.Dataplanes, "shop", "web-1", passingtest.Dataplane("10.0.0.1", web))
	z.Put(mesh.Meshes, "", "plain", passingtest.Secured())
	z.Same("when the other mesh has mutual TLS, too", "web{mesh=plain,mesh.io/zone=west}", "web{mesh=plain}", both[0], both[1])
	z.Put(mesh.Meshes, "", "plain", &mesh.Mesh{})
	z.Same("and no longer", both...)
	// Names are the same in upper and lower case, and Envoy refuses two chains of one name.
	z.Put(mesh.Dataplanes, "shop", "web-1", passingtest.Dataplane("10.0.0.1", mesh.Tags{mesh.TagService: "web", "v": "A"}))
	z.Put(mesh.Dataplanes, "shop", "web-2", passingtest.Dataplane("10.0.0.2", mesh.Tags{mesh.TagService: "web", "v": "a"}))
	z.Same("of tags that differ in case", "web{mesh=shop,mesh.io/zone=west,v=A}", both[0], "web{mesh=shop,v=A}", both[1])
	z.Drop(mesh.Dataplanes, "shop", "web-1")
	z.Drop(mesh.Dataplanes, "shop", "web-2")
	z.Same("of a service that is gone")
}

// TestManyTags: very many sets of tags are cut, and what is left out is said.
func TestManyTags(t *testing.T) {
	z := passingtest.New(t, ingress.New)
	z.Put(mesh.Meshes, "", "shop", passingtest.Secured())
	z.Put(mesh.ZoneIngresses, "", "in", passingtest.Ingress())
	for i := range 100 {
		z.Put(mesh.Dataplanes, "shop", fmt.Sprint("web-", i), passingtest.Dataplane("10.0.0.1", mesh.Tags{mesh.TagService: "web", mesh.TagInstance: fmt.Sprint(i)}))
	}
	if names := z.Names(); len(names) != 64 || !slices.Contains(names, "web{mesh=shop}") {
		t.Errorf("%d server names: %v", len(names), names)
	}
	if fs := z.Planner.Failures(); len(fs) != 1 || fs[0].Cell != "service shop:web" {
		t.Errorf("failures are %v", fs)
	}
}

// TestNowhere: an ingress must be told where to listen.
func TestNowhere(t *testing.T) {
	for _, address := range []string{"", "ingress.example"} {
		if set, err := ingress.New().Set(address, 10001); err == nil {
			t.Errorf("%q: %v", address, set)
		}
	}
}

// TestGolden: the plan of an ingress, which both versions of Envoy accept.
func TestGolden(t *testing.T) {
	z := passingtest.New(t, ingress.New)
	z.Put(mesh.Meshes, "", "shop", passingtest.Secured())
	z.Put(mesh.ZoneIngresses, "", "in", passingtest.Ingress())
	z.Put(mesh.Dataplanes, "shop", "web-1", passingtest.Dataplane("10.0.0.1", mesh.Tags{mesh.TagService: "web", "version": "v1"}))
	z.Put(mesh.Dataplanes, "shop", "web-2", passingtest.Dataplane("10.0.0.2", mesh.Tags{mesh.TagService: "web", "version": "v2"}))
	z.Put(mesh.Dataplanes, "shop", "named-1", passingtest.Dataplane("db.example", mesh.Tags{mesh.TagService: "named"}))
	z.Golden("testdata/ingress.golden.yaml")
	if z.Set().Secrets() != nil {
		t.Error("an ingress may have secrets")
	}
}
