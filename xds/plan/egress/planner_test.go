package egress_test

import (
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan/egress"
	"github.com/meshgate/meshgate/xds/plan/passing/passingtest"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/resource"
)

func fresh() *egress.Planner { return egress.New(all.Policies()) }

// kinds are those that meshes with policies hold.
var kinds = append(all.Kinds(), sidecar.LocatingKinds()...)

func through() *mesh.Mesh {
	m := passingtest.Secured()
	m.Routing = &mesh.Routing{ZoneEgress: true}
	return m
}

func own() *mesh.ZoneEgress {
	return &mesh.ZoneEgress{Networking: &mesh.ZoneEgressNetworking{Address: "127.0.0.1", Port: 10002}}
}

func ingressOf(zone, address string, instances uint32, tags mesh.Tags) *mesh.ZoneIngress {
	return &mesh.ZoneIngress{
		Zone: zone, Networking: &mesh.ZoneIngressNetworking{AdvertisedAddress: address, AdvertisedPort: 10001},
		AvailableServices: []mesh.AvailableService{{Mesh: "shop", Instances: instances, Tags: tags}},
	}
}

// TestServerNames: an egress lets in what is for services in other zones, of meshes that want it.
func TestServerNames(t *testing.T) {
	z := passingtest.New(t, fresh, kinds...)
	far := mesh.Tags{mesh.TagService: "far"}
	z.Put(mesh.Meshes, "", "shop", through())
	z.Put(mesh.ZoneIngresses, "", "east-in", ingressOf("east", "10.0.0.9", 1, far))
	z.Put(mesh.Dataplanes, "shop", "near-1", passingtest.Dataplane("10.0.0.1", mesh.Tags{mesh.TagService: "near"}))
	z.Same("without an egress")
	z.Put(mesh.ZoneEgresses, "", "theirs", &mesh.ZoneEgress{Zone: "east", Networking: own().Networking})
	z.Same("with an egress of another zone")
	z.Put(mesh.ZoneEgresses, "", "out", own())
	both := []string{"far{mesh=shop,mesh.io/zone=east}", "far{mesh=shop}"}
	// A dataplane of the own zone is called directly.
	z.Same("with an egress", both...)
	off := false
	z.Put(mesh.Zones, "", "east", &mesh.Zone{Enabled: &off})
	z.Same("without a zone that is switched off")
	z.Put(mesh.Zones, "", "east", &mesh.Zone{})
	z.Same("that is switched on", both...)
	z.Put(mesh.Meshes, "", "shop", passingtest.Secured())
	z.Same("of a mesh that does not want it")
	z.Put(mesh.Meshes, "", "shop", through())
	z.Same("that wants it again", both...)
	// An ingress of the own zone makes no difference, and one that becomes one leads nowhere.
	z.Put(mesh.ZoneIngresses, "", "in", passingtest.Ingress())
	z.Same("with an ingress", both...)
	z.Put(mesh.ZoneIngresses, "", "east-in", ingressOf("west", "10.0.0.9", 1, far))
	z.Same("of the own zone")
	z.Put(mesh.ZoneIngresses, "", "east-in", ingressOf("north", "10.0.0.9", 1, far))
	z.Same("of a third zone", "far{mesh=shop,mesh.io/zone=north}", "far{mesh=shop}")
	z.Drop(mesh.ZoneIngresses, "", "east-in")
	z.Same("that is gone")
	z.Drop(mesh.ZoneEgresses, "", "out")
	z.Same("without an egress again")
}

func version(v string) mesh.Tags { return mesh.Tags{mesh.TagService: "far", "version": v} }

// TestWeights: all instances in other zones get the same share, and an address is listed once.
func TestWeights(t *testing.T) {
	z := passingtest.New(t, fresh, kinds...)
	z.Put(mesh.Meshes, "", "shop", through())
	z.Put(mesh.ZoneEgresses, "", "out", own())
	in := ingressOf("east", "10.0.0.9", 3, version("v1"))
	in.AvailableServices = append(in.AvailableServices, mesh.AvailableService{Mesh: "shop", Instances: 2, Tags: version("v2")})
	z.Put(mesh.ZoneIngresses, "", "east-in", in)
	z.Put(mesh.ZoneIngresses, "", "north-in", ingressOf("north", "10.0.0.8", 1, version("v2")))
	for cluster, want := range map[string]map[string]uint32{
		"shop:far": {"10.0.0.9": 5, "10.0.0.8": 1},
		"shop:" + sidecar.ClusterName(version("v2")): {"10.0.0.9": 2, "10.0.0.8": 1},
		"shop:" + sidecar.ClusterName(version("v1")): {"10.0.0.9": 3},
	} {
		r := z.Set().Get(resource.Endpoint, cluster)
		if r == nil {
			t.Errorf("%s has no endpoints", cluster)
			continue
		}
		var a endpointv3.ClusterLoadAssignment
		if err := proto.Unmarshal(r.Body, &a); err != nil {
			t.Fatal(err)
		}
		got := map[string]uint32{}
		for _, e := range a.GetEndpoints()[0].GetLbEndpoints() {
			got[e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()] = max(1, e.GetLoadBalancingWeight().GetValue())
		}
		if len(got) != len(want) || len(a.GetEndpoints()[0].GetLbEndpoints()) != len(want) {
			t.Errorf("%s: weights are %v, want %v", cluster, got, want)
		}
		for at, weight := range want {
			if got[at] != weight {
				t.Errorf("%s: weights are %v, want %v", cluster, got, want)
			}
		}
	}
}

// TestNothingGoesInCircles: what says that it is an ingress of another zone, and is where an egress
// of this one is, gets no connections, nor does one whose name may lead anywhere. Where an ingress is
// makes no difference: it leads to no egress, and a token for ingresses must not take away what only
// egresses lead to.
func TestNothingGoesInCircles(t *testing.T) {
	z := passingtest.New(t, fresh, kinds...)
	z.Put(mesh.Meshes, "", "shop", through())
	z.Put(mesh.ZoneIngresses, "", "evil-in", ingressOf("east", "127.0.0.1", 1, version("v1")))
	also := own()
	also.Networking.Port = 10003
	z.Put(mesh.ZoneEgresses, "", "also", also)
	z.Same("at another port of the machine", "far{mesh=shop,mesh.io/zone=east,version=v1}", "far{mesh=shop,mesh.io/zone=east}", "far{mesh=shop,version=v1}", "far{mesh=shop}")
	also.Networking.Port = 10001
	z.Put(mesh.ZoneEgresses, "", "also", also)
	z.Same("where the egress is")
	z.Put(mesh.ZoneEgresses, "", "also", own())
	z.Put(mesh.ZoneIngresses, "", "in", passingtest.Ingress())
	z.Same("where an ingress is", "far{mesh=shop,mesh.io/zone=east,version=v1}", "far{mesh=shop,mesh.io/zone=east}", "far{mesh=shop,version=v1}", "far{mesh=shop}")
	also.Networking.Port = 10001
	z.Put(mesh.ZoneEgresses, "", "also", also)
	z.Same("where both are")
	if fs := z.FailuresOf("service shop:far"); len(fs) != 1 || !strings.Contains(fs[0], "cannot reach 1 of its instances") {
		t.Errorf("failures are %v", fs)
	}
	z.Put(mesh.ZoneIngresses, "", "evil-in", ingressOf("east", "in.example", 1, version("v1")))
	z.Same("at a name")
}

// TestRoom: services that an egress does not lead to take no room of those that it does.
func TestRoom(t *testing.T) {
	z := passingtest.New(t, fresh, kinds...)
	z.Put(mesh.Meshes, "", "shop", through())
	z.Put(mesh.ZoneEgresses, "", "out", own())
	z.Put(mesh.Dataplanes, "shop", "near-1", passingtest.Crowd("a", 5000))
	z.Put(mesh.ZoneIngresses, "", "east-in", ingressOf("east", "10.0.0.9", 1, version("v1")))
	z.Same("with many services of the own zone", "far{mesh=shop,mesh.io/zone=east,version=v1}", "far{mesh=shop,mesh.io/zone=east}", "far{mesh=shop,version=v1}", "far{mesh=shop}")
	if fs := z.Planner.Failures(); len(fs) > 0 {
		t.Errorf("failures are %v", fs)
	}
}

// TestGolden: the plan of an egress, which both versions of Envoy accept.
func TestGolden(t *testing.T) {
	z := passingtest.New(t, fresh, kinds...)
	z.Put(mesh.Meshes, "", "shop", through())
	z.Put(mesh.ZoneEgresses, "", "out", own())
	z.Put(mesh.ZoneIngresses, "", "east-in", ingressOf("east", "10.0.0.9", 3, version("v1")))
	z.Put(mesh.ZoneIngresses, "", "north-in", ingressOf("north", "10.0.0.8", 1, version("v1")))
	z.Bounded()
	z.Golden("testdata/egress.golden.yaml")
	if z.Set().Secrets() != nil {
		t.Error("an egress has secrets although it only passes connections on")
	}
}
