package publish_test

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy/circuitbreaker"
	"github.com/meshgate/meshgate/xds/policy/faultinjection"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
)

// anyOfZone returns a random write of something that a proxy of the zone may go by. roots are what
// meshes trust.
func anyOfZone(rt *rapid.T, roots []byte) (w written) {
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(rt, label) }
	w.scope = pick("mesh", "one", "two")
	switch pick("what", "mesh", "trust", "dataplane", "dataplane", "external", "permission", "fault", "breaker", "proxy", "proxy", "theirs", "zone") {
	case "mesh":
		w.kind, w.name, w.spec = mesh.Meshes, w.scope, through(rapid.IntRange(0, 3).Draw(rt, "mtls") > 0, rapid.Bool().Draw(rt, "egress"))
		w.scope = ""
	case "trust":
		w.kind, w.name, w.spec = mesh.Trusts, w.scope, &mesh.Trust{Backend: "ca", Issuer: pick("issuer", "first", "second"), Roots: roots}
	case "dataplane":
		d := zonal(pick("service", "a", "A", "b"))
		d.Networking.Address = pick("address", "10.0.0.1", "10.0.0.2", "127.0.0.1", "a.example")
		d.Networking.Inbound[0].Port = uint32(rapid.SampledFrom([]int{80, 1, 2}).Draw(rt, "port"))
		if rapid.Bool().Draw(rt, "tagged") {
			d.Networking.Inbound[0].Tags["version"] = pick("version", "v1", "v2")
		}
		w.kind, w.name, w.spec = mesh.Dataplanes, pick("name", "a-1", "a-2"), d
	case "external":
		w.kind, w.name = mesh.ExternalServices, pick("name", "mail", "news")
		w.spec = outside(pick("service", "mail", "news"), pick("protocol", "http", "tcp"), pick("address", "mail.example:80", "10.0.0.7:25"))
	case "permission":
		w.kind, w.name, w.spec = trafficpermission.Kind, pick("name", "all", "some"), allowing(pick("from", mesh.AnyValue, "web"), pick("to", mesh.AnyValue, "mail", "a"))
	case "fault":
		w.kind, w.name = faultinjection.Kind, pick("name", "faults", "broken")
		w.spec = aborting(pick("to", "mail", "news", "a"), rapid.SampledFrom([]uint32{500, 503}).Draw(rt, "status"))
	case "breaker":
		w.kind, w.name, w.spec = circuitbreaker.Kind, "limits", breaker(mesh.AnyValue, pick("to", "a", "mail"), rapid.SampledFrom([]uint32{1, 2}).Draw(rt, "connections"))
	case "zone":
		on := rapid.Bool().Draw(rt, "on")
		w.kind, w.scope, w.name, w.spec = mesh.Zones, "", "east", &mesh.Zone{Enabled: &on}
	case "proxy":
		return anyProxy(rt)
	case "theirs":
		w.kind, w.name, w.spec = mesh.ZoneIngresses, pick("name", "theirs", "others"), theirs(rt, w.scope)
		w.scope = ""
	}
	if w.kind != mesh.Meshes && rapid.IntRange(0, 4).Draw(rt, "deletes") == 0 {
		w.spec = nil
	}
	return w
}

// anyProxy returns a write of the ingress or the egress of the zone.
func anyProxy(rt *rapid.T) (w written) {
	w.name = "x"
	address, port := rapid.SampledFrom([]string{"127.0.0.1", "127.0.0.1", "127.0.0.2", "x.example"}).Draw(rt, "address"), uint32(rapid.IntRange(1, 2).Draw(rt, "port"))
	deletes := rapid.IntRange(0, 3).Draw(rt, "deletes") == 0
	if w.kind = mesh.ZoneIngresses; rapid.Bool().Draw(rt, "egress") {
		w.kind, w.spec = mesh.ZoneEgresses, &mesh.ZoneEgress{Networking: &mesh.ZoneEgressNetworking{Address: address, Port: port}}
	} else {
		w.spec = &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Address: address, Port: port}}
	}
	if deletes {
		w.spec = nil
	}
	return w
}

// theirs is an ingress of another zone, or of this one, with services of a mesh.
func theirs(rt *rapid.T, meshName string) *mesh.ZoneIngress {
	in := &mesh.ZoneIngress{
		Zone:       rapid.SampledFrom([]string{"east", "north", ""}).Draw(rt, "zone"),
		Networking: &mesh.ZoneIngressNetworking{Address: "10.0.0.9", Port: 9, AdvertisedAddress: rapid.SampledFrom([]string{"10.0.0.9", "127.0.0.1"}).Draw(rt, "advertised"), AdvertisedPort: 2},
	}
	for i := range rapid.IntRange(0, 2).Draw(rt, "services") {
		tags := mesh.Tags{mesh.TagService: rapid.SampledFrom([]string{"far", "a"}).Draw(rt, "available"), "version": fmt.Sprint("v", i)}
		in.AvailableServices = append(in.AvailableServices, mesh.AvailableService{Mesh: meshName, Instances: uint32(rapid.IntRange(1, 3).Draw(rt, "instances")), Tags: tags})
	}
	return in
}
