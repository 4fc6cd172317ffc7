package ingress_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan/ingress"
	"github.com/meshgate/meshgate/xds/plan/passing"
	"github.com/meshgate/meshgate/xds/plan/passing/passingtest"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
)

func fresh() *passing.Planner { return ingress.New() }

// TestServerNames: an ingress lets in what is for services of meshes with mutual TLS in its zone.
func TestServerNames(t *testing.T) {
	z := passingtest.New(t, fresh)
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
	z := passingtest.New(t, fresh)
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

// TestTagsOfInstances: of too many sets of tags those stay that select many instances, whatever they
// are called.
func TestTagsOfInstances(t *testing.T) {
	z := passingtest.New(t, fresh)
	z.Put(mesh.Meshes, "", "shop", passingtest.Secured())
	z.Put(mesh.ZoneIngresses, "", "in", passingtest.Ingress())
	for i := range 100 {
		tags := mesh.Tags{mesh.TagService: "web", "host": fmt.Sprint(i), "version": fmt.Sprint("v", i%2)}
		z.Put(mesh.Dataplanes, "shop", fmt.Sprint("web-", i), passingtest.Dataplane("10.0.0.1", tags))
	}
	names := z.Names()
	for _, want := range []string{"web{mesh=shop}", "web{mesh=shop,version=v0}", "web{mesh=shop,version=v1}", "web{mesh=shop,mesh.io/zone=west}", "web{host=0,mesh=shop}"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %d server names", want, len(names))
		}
	}
	if fs := z.FailuresOf("service shop:web"); len(fs) != 1 || !strings.Contains(fs[0], "at least 40 sets of tags are too many") {
		t.Errorf("failures are %v", fs)
	}
}

// TestInstanceOfManyTags: of an instance with very many tags each is known alone, as far as there is
// room.
func TestInstanceOfManyTags(t *testing.T) {
	z := passingtest.New(t, fresh)
	z.Put(mesh.Meshes, "", "shop", passingtest.Secured())
	z.Put(mesh.ZoneIngresses, "", "in", passingtest.Ingress())
	tags := mesh.Tags{mesh.TagService: "web"}
	for i := range 8 {
		tags[fmt.Sprint("k", i)] = "v"
	}
	z.Put(mesh.Dataplanes, "shop", "web-1", passingtest.Dataplane("10.0.0.1", tags))
	if names := z.Names(); len(names) != 1+9+1 || !slices.Contains(names, "web{k7=v,mesh=shop}") || !slices.Contains(names, "web{k0=v,k1=v,k2=v,k3=v,k4=v,k5=v,k6=v,k7=v,mesh=shop,mesh.io/zone=west}") {
		t.Errorf("%d server names: %v", len(names), names)
	}
	for i := range 30_000 {
		tags[fmt.Sprintf("n%05d", i)] = "v"
	}
	z.Put(mesh.Dataplanes, "shop", "web-1", passingtest.Dataplane("10.0.0.1", tags))
	if names := z.Names(); len(names) != 64 || !slices.Contains(names, "web{k7=v,mesh=shop}") || !slices.Contains(names, "web{mesh=shop}") {
		t.Errorf("%d server names: %v", len(names), names)
	}
}

// TestTagNamedMesh: a tag with the key that the mesh has in server names is not lost in them.
func TestTagNamedMesh(t *testing.T) {
	z := passingtest.New(t, fresh)
	z.Put(mesh.Meshes, "", "shop", passingtest.Secured())
	z.Put(mesh.ZoneIngresses, "", "in", passingtest.Ingress())
	for i, value := range []string{"shop", "bank"} {
		z.Put(mesh.Dataplanes, "shop", fmt.Sprint("web-", i), passingtest.Dataplane(fmt.Sprint("10.0.0.", i+1), mesh.Tags{mesh.TagService: "web", "mesh": value}))
	}
	names := map[string]bool{}
	for _, name := range z.Names() {
		names[name] = true
	}
	for _, tags := range []mesh.Tags{{mesh.TagService: "web"}, {mesh.TagService: "web", "mesh": "shop"}, {mesh.TagService: "web", "mesh": "bank"}} {
		sni := sidecar.SNI("shop", tags)
		if !names[sni] {
			t.Errorf("%s: %s is refused", tags, sni)
		}
		delete(names, sni)
	}
	if len(names) != 3 { // those with the zone
		t.Errorf("server names besides are %v", names)
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
	z := passingtest.New(t, fresh)
	z.Put(mesh.Meshes, "", "shop", passingtest.Secured())
	z.Put(mesh.ZoneIngresses, "", "in", passingtest.Ingress())
	z.Put(mesh.Dataplanes, "shop", "web-1", passingtest.Dataplane("10.0.0.1", mesh.Tags{mesh.TagService: "web", "version": "v1"}))
	z.Put(mesh.Dataplanes, "shop", "web-2", passingtest.Dataplane("10.0.0.2", mesh.Tags{mesh.TagService: "web", "version": "v2"}))
	z.Put(mesh.Dataplanes, "shop", "named-1", passingtest.Dataplane("db.example", mesh.Tags{mesh.TagService: "named"}))
	z.Bounded()
	z.Golden("testdata/ingress.golden.yaml")
	if z.Set().Secrets() != nil {
		t.Error("an ingress may have secrets")
	}
}

// TestNothingGoesInCircles: a dataplane that says it is where an ingress is gets no connections
// there, nor one whose name may lead anywhere, whichever was there first.
func TestNothingGoesInCircles(t *testing.T) {
	z := passingtest.New(t, fresh)
	z.Put(mesh.Meshes, "", "shop", passingtest.Secured())
	z.Put(mesh.ZoneIngresses, "", "in", passingtest.Ingress())
	evil := func(address string, port uint32, service string) *mesh.Dataplane {
		d := passingtest.Dataplane(address, mesh.Tags{mesh.TagService: service})
		d.Networking.Inbound[0].Port = port
		return d
	}
	z.Put(mesh.Dataplanes, "shop", "evil-1", evil("127.0.0.1", 10001, "evil"))
	z.Put(mesh.Dataplanes, "shop", "evil-2", evil("::ffff:127.0.0.1", 10001, "evil"))
	z.Put(mesh.Dataplanes, "shop", "named-1", evil("in.example", 10001, "named"))
	z.Put(mesh.Dataplanes, "shop", "second-1", evil("203.0.113.5", 443, "second"))
	second := []string{"web{mesh=shop,mesh.io/zone=west}", "web{mesh=shop}"}
	for i := range second {
		second[i] = strings.Replace(second[i], "web", "second", 1)
	}
	z.Same("before the second ingress", second...)
	also := passingtest.Ingress()
	also.Networking.Port, also.Networking.AdvertisedAddress, also.Networking.AdvertisedPort = 10002, "203.0.113.5", 443
	z.Put(mesh.ZoneIngresses, "", "also", also)
	z.Same("with the second ingress")
	for cell, n := range map[string]int{"service shop:evil": 2, "service shop:named": 1, "service shop:second": 1} {
		if fs := z.FailuresOf(cell); len(fs) != 1 || !strings.Contains(fs[0], fmt.Sprint("cannot reach ", n, " of its instances")) {
			t.Errorf("%s: %v", cell, fs)
		}
	}
	z.Drop(mesh.ZoneIngresses, "", "also")
	z.Same("when it is gone", second...)
}

// TestRoomOfMeshes: a mesh with very many services or sets of tags takes no room of another one.
func TestRoomOfMeshes(t *testing.T) {
	z := passingtest.New(t, fresh)
	z.Put(mesh.Meshes, "", "a", passingtest.Secured())
	z.Put(mesh.Meshes, "", "shop", passingtest.Secured())
	z.Put(mesh.ZoneIngresses, "", "in", passingtest.Ingress())
	d := passingtest.Crowd("s", 5000)
	z.Put(mesh.Dataplanes, "a", "all", d)
	z.Put(mesh.Dataplanes, "shop", "web-1", passingtest.Dataplane("10.0.0.2", mesh.Tags{mesh.TagService: "web", "v": "1"}))
	names := z.Names()
	if n := len(names); n != 4096+4 || !slices.Contains(names, "s-4095{mesh=a}") || !slices.Contains(names, "web{mesh=shop,v=1}") {
		t.Errorf("%d server names", n)
	}
	if fs := z.FailuresOf("mesh a"); len(fs) != 1 || !strings.Contains(fs[0], "904 services are too many") {
		t.Errorf("failures are %v", fs)
	}
	d.Networking.Inbound = d.Networking.Inbound[:500]
	z.Put(mesh.Dataplanes, "a", "all", d)
	if n := len(z.Names()); n != 500*8+4 {
		t.Errorf("%d server names of fewer services", n)
	}
}

// TestRoomOfWhatLeadsNowhere: services without an instance that gets connections, and meshes of
// such, take no room.
func TestRoomOfWhatLeadsNowhere(t *testing.T) {
	z := passingtest.New(t, fresh)
	z.Put(mesh.ZoneIngresses, "", "in", passingtest.Ingress())
	for i := range 8 {
		z.Put(mesh.Meshes, "", fmt.Sprint("empty-", i), passingtest.Secured())
	}
	z.Put(mesh.Meshes, "", "shop", passingtest.Secured())
	d := passingtest.Crowd("s", 5000)
	z.Put(mesh.Dataplanes, "shop", "all", d)
	if n := len(z.Names()); n != 4096 {
		t.Errorf("%d server names", n)
	}
	for i := range d.Networking.Inbound {
		d.Networking.Inbound[i].State = mesh.StateNotReady
	}
	z.Put(mesh.Dataplanes, "shop", "all", d)
	z.Same("without a service")
	z.Put(mesh.Dataplanes, "shop", "web-1", passingtest.Dataplane("10.0.0.2", mesh.Tags{mesh.TagService: "web", "v": "1"}))
	z.Same("with one", "web{mesh=shop,mesh.io/zone=west,v=1}", "web{mesh=shop,mesh.io/zone=west}", "web{mesh=shop,v=1}", "web{mesh=shop}")
	if fs := z.Planner.Failures(); len(fs) > 0 {
		t.Errorf("failures are %v", fs)
	}
}

// TestNamesThatDifferInCase: of services that are the same in a server name one is reached, and
// the other one is said not to be.
func TestNamesThatDifferInCase(t *testing.T) {
	z := passingtest.New(t, fresh)
	z.Put(mesh.Meshes, "", "shop", passingtest.Secured())
	z.Put(mesh.ZoneIngresses, "", "in", passingtest.Ingress())
	z.Put(mesh.Dataplanes, "shop", "one", passingtest.Dataplane("10.0.0.1", mesh.Tags{mesh.TagService: "WEB"}))
	z.Put(mesh.Dataplanes, "shop", "two", passingtest.Dataplane("10.0.0.2", mesh.Tags{mesh.TagService: "web"}))
	if fs := z.FailuresOf("service shop:web"); len(fs) == 0 || !strings.Contains(fs[0], "WEB") {
		t.Errorf("failures are %v", z.Planner.Failures())
	}
}
