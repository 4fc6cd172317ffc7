package mesh

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TestZoneProxyViolations has the texts that clients compare.
func TestZoneProxyViolations(t *testing.T) {
	ingress := func(n ZoneIngressNetworking, services ...AvailableService) any {
		return &ZoneIngress{Networking: &n, AvailableServices: services}
	}
	egress := func(n ZoneEgressNetworking) any { return &ZoneEgress{Networking: &n} }
	const port = "networking.port: port must be in the range [1, 65535]"
	const admin = "networking.admin.port: must differ from port"
	for name, c := range map[string]struct {
		spec any
		want []string
	}{
		"ingress": {ingress(
			ZoneIngressNetworking{Address: "10.0.0.1", AdvertisedAddress: "203.0.113.1", Port: 10001, AdvertisedPort: 20001, Admin: &Admin{Port: 9901}},
			AvailableService{Tags: Tags{TagService: "web", "version": "1"}, Instances: 2, Mesh: "default"},
		), nil},
		"ingress without address":    {ingress(ZoneIngressNetworking{Port: 10001}), nil},
		"ingress by name":            {ingress(ZoneIngressNetworking{Address: "ingress.example", Port: 10001}), nil},
		"ingress without networking": {&ZoneIngress{}, []string{port}},
		"ingress without port":       {ingress(ZoneIngressNetworking{Address: "10.0.0.1"}), []string{port}},
		"port too large":             {ingress(ZoneIngressNetworking{Port: 65536}), []string{port}},
		"advertised port alone":      {ingress(ZoneIngressNetworking{Port: 1, AdvertisedPort: 2}), []string{"networking.advertisedAddress: has to be defined with advertisedPort"}},
		"advertised address alone":   {ingress(ZoneIngressNetworking{Port: 1, AdvertisedAddress: "203.0.113.1"}), []string{"networking.advertisedPort: has to be defined with advertisedAddress"}},
		"advertised port too large": {
			ingress(ZoneIngressNetworking{Port: 1, AdvertisedAddress: "203.0.113.1", AdvertisedPort: 70000}),
			[]string{"networking.advertisedPort: port must be in the range [1, 65535]"},
		},
		"bad address":            {ingress(ZoneIngressNetworking{Address: "..", Port: 1}), []string{"networking.address.address: address has to be valid IP address or domain name"}},
		"every address":          {ingress(ZoneIngressNetworking{Address: "0.0.0.0", Port: 1}), []string{"networking.address.address: must not be 0.0.0.0 or ::"}},
		"bad advertised address": {ingress(ZoneIngressNetworking{AdvertisedAddress: "..", AdvertisedPort: 1, Port: 1}), []string{"networking.advertisedAddress.address: address has to be valid IP address or domain name"}},
		"admin on the port":      {ingress(ZoneIngressNetworking{Port: 9901, Admin: &Admin{Port: 9901}}), []string{admin}},
		"admin beside it":        {ingress(ZoneIngressNetworking{Address: "10.0.0.1", Port: 9901, Admin: &Admin{Port: 9901}}), nil},
		"admin too large":        {ingress(ZoneIngressNetworking{Port: 1, Admin: &Admin{Port: 65536}}), []string{"networking.admin.port: port must be in the range [1, 65535]"}},
		"no service": {
			ingress(ZoneIngressNetworking{Port: 1}, AvailableService{Tags: Tags{"version": "1"}}),
			[]string{`availableService[0].tags: mandatory tag "mesh.io/service" is missing`},
		},
		"bad tag": {
			ingress(ZoneIngressNetworking{Port: 1}, AvailableService{Tags: Tags{TagService: "a"}}, AvailableService{Tags: Tags{TagService: "*"}}),
			[]string{`availableService[1].tags["mesh.io/service"]: tag value must consist of alphanumeric characters, dots, dashes and underscores`},
		},
		"egress":                    {egress(ZoneEgressNetworking{Address: "10.0.0.1", Port: 10002, Admin: &Admin{Port: 9902}}), nil},
		"egress without networking": {&ZoneEgress{}, []string{port}},
		"egress, bad address":       {egress(ZoneEgressNetworking{Address: "::", Port: 1}), []string{"networking.address.address: must not be 0.0.0.0 or ::"}},
		"egress, admin on the port": {egress(ZoneEgressNetworking{Address: "127.0.0.1", Port: 9902, Admin: &Admin{Port: 9902}}), []string{admin}},
	} {
		var vs []fault.Violation
		switch spec := c.spec.(type) {
		case *ZoneIngress:
			vs = spec.validate()
		case *ZoneEgress:
			vs = spec.validate()
		}
		var got []string
		for _, v := range vs {
			got = append(got, v.Path+": "+v.Message)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestZoneEnabled: a zone that does not say so is enabled, and what was said is kept.
func TestZoneEnabled(t *testing.T) {
	for body, want := range map[string]bool{
		`{"type":"Zone","name":"z"}`: true, `{"type":"Zone","name":"z","enabled":true}`: true, `{"type":"Zone","name":"z","enabled":false}`: false,
	} {
		read, err := model.ReadDocument(Zones, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		z := read.Spec.(*Zone)
		if z.IsEnabled() != want {
			t.Errorf("%s: %t", body, z.IsEnabled())
		}
		shown, err := model.EncodeSpec(z)
		said := slices.Contains([]string{`{"enabled":true}`, `{"enabled":false}`}, string(shown))
		if err != nil || said != (z.Enabled != nil) {
			t.Errorf("%s is shown as %s: %v", body, shown, err)
		}
	}
}
