package mesh

import (
	"cmp"
	"maps"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// ZoneIngress is the spec of a proxy through which other zones reach the services of a zone
// (requirement "ZoneIngress"). Its proxy is told by its SNI which service a connection is for,
// and passes the connection on as it is: the proxies at both ends authenticate each other.
type ZoneIngress struct {
	model.Labelled
	// Zone is the name of its zone; that of this control plane if it is absent.
	Zone       string                 `json:"zone,omitempty"`
	Networking *ZoneIngressNetworking `json:"networking,omitempty"`
	// AvailableServices are the services that other zones can reach through it.
	AvailableServices []AvailableService `json:"availableServices,omitempty"`
}

// ZoneIngressNetworking says where a ZoneIngress listens, and where other zones find it.
type ZoneIngressNetworking struct {
	Address string `json:"address,omitempty"`
	// AdvertisedAddress and AdvertisedPort are those for other zones. One needs the other.
	AdvertisedAddress string `json:"advertisedAddress,omitempty"`
	Port              uint32 `json:"port,omitempty"`
	AdvertisedPort    uint32 `json:"advertisedPort,omitempty"`
	Admin             *Admin `json:"admin,omitempty"`
}

// AvailableService is a service behind a ZoneIngress.
type AvailableService struct {
	Tags            Tags   `json:"tags,omitempty"`
	Instances       uint32 `json:"instances,omitempty"`
	Mesh            string `json:"mesh,omitempty"`
	ExternalService bool   `json:"externalService,omitempty"`
}

// In reports whether the ingress is in a zone. own is the zone of this control plane, in which
// is an ingress that names none.
func (z *ZoneIngress) In(zone, own string) bool { return cmp.Or(z.Zone, own) == zone }

// Listens implements [Zonal].
func (z *ZoneIngress) Listens() (address string, port uint32) {
	if z.Networking == nil {
		return "", 0
	}
	return z.Networking.Address, z.Networking.Port
}

// Administered implements [Zonal].
func (z *ZoneIngress) Administered() *Admin {
	if z.Networking == nil {
		return nil
	}
	return z.Networking.Admin
}

// Adopt implements [Zonal]. The control plane knows better which services there are.
func (z *ZoneIngress) Adopt(stored Zonal) {
	z.AvailableServices = nil
	if stored != nil {
		z.AvailableServices = stored.(*ZoneIngress).AvailableServices
	}
}

// maxInstances bounds the weight of one service, because Envoy adds weights up in 32 bits.
const maxInstances = 10_000

// Endpoints returns where proxies of a mesh in another zone find its services: at the ingress,
// under the tags of the services with the zone of the ingress. There are none while it is not
// known where other zones find the ingress.
func (z *ZoneIngress) Endpoints(name, meshName string) (out []Endpoint) {
	n := z.Networking
	if n == nil || n.AdvertisedAddress == "" || n.AdvertisedPort == 0 {
		return nil
	}
	for i := range z.AvailableServices {
		s := &z.AvailableServices[i]
		if s.Mesh != meshName || s.ExternalService || s.Instances == 0 || s.Tags.Service() == "" {
			continue
		}
		tags := maps.Clone(s.Tags)
		tags[TagZone] = z.Zone
		out = append(out, Endpoint{
			Address: n.AdvertisedAddress, Port: n.AdvertisedPort, Tags: tags, Ingress: name, Instances: min(s.Instances, maxInstances), Ready: true,
		})
	}
	return out
}

// ZoneIngresses describes the resources.
var ZoneIngresses = model.Describe(ZoneIngress{}, model.Kind{
	Name: "zone_ingress", Path: "zone-ingresses", Scoping: model.Global, Class: model.Config,
	Document: &model.Document{
		Written: model.ByZones,
		Type:    "ZoneIngress", Singular: "Zone Ingress", Plural: "Zone Ingresses", OtherPaths: []string{"zoneingresses"},
		Validate: func(spec any) []fault.Violation { return spec.(*ZoneIngress).validate() },
	},
})

const (
	textNeedsAddress = "has to be defined with advertisedAddress"
	textNeedsPort    = "has to be defined with advertisedPort"
	textAdminPort    = "must differ from port"
)

// validate returns all violations of a ZoneIngress.
func (z *ZoneIngress) validate() []fault.Violation {
	var vs violations
	n := z.Networking
	if n == nil {
		n = &ZoneIngressNetworking{}
	}
	vs.zoneAdmin(n.Admin, n.Address, n.Port)
	switch {
	case n.AdvertisedAddress == "" && n.AdvertisedPort != 0:
		vs.add("networking.advertisedAddress", textNeedsPort)
	case n.AdvertisedAddress != "" && n.AdvertisedPort == 0:
		vs.add("networking.advertisedPort", textNeedsAddress)
	}
	vs.zoneAddress("networking.address", n.Address)
	vs.zoneAddress("networking.advertisedAddress", n.AdvertisedAddress)
	vs.port("networking.port", n.Port)
	if n.AdvertisedPort != 0 {
		vs.port("networking.advertisedPort", n.AdvertisedPort)
	}
	for i := range z.AvailableServices {
		path, tags := indexed("availableService", i)+".tags", z.AvailableServices[i].Tags // clients know the singular
		if tags.Service() == "" {
			vs.add(path, textServiceTag)
		}
		vs.join(ValidateTags(path, tags))
	}
	return vs
}

// zoneAddress checks the address of a proxy of a zone, if there is one. Clients know a path
// that names the address twice.
func (vs *violations) zoneAddress(path, address string) {
	if address != "" {
		vs.address(path+".address", address)
	}
}

// zoneAdmin refuses an administration port on which the proxy of a zone also listens. The port
// is bound to the loopback address.
func (vs *violations) zoneAdmin(admin *Admin, address string, port uint32) {
	if admin == nil || admin.Port == 0 {
		return
	}
	if admin.Port > 65535 {
		vs.add("networking.admin.port", textPort)
	}
	if admin.Port == port && (address == "" || onLoopback(address)) {
		vs.add("networking.admin.port", textAdminPort)
	}
}
