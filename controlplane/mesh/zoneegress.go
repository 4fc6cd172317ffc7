package mesh

import (
	"cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// ZoneEgress is the spec of a proxy through which a zone reaches other zones and services
// outside the mesh.
type ZoneEgress struct {
	model.Labelled
	// Zone is the name of its zone; that of this control plane if it is absent.
	Zone       string                `json:"zone,omitempty"`
	Networking *ZoneEgressNetworking `json:"networking,omitempty"`
}

// ZoneEgressNetworking says where a ZoneEgress listens.
type ZoneEgressNetworking struct {
	Address string `json:"address,omitempty"`
	Port    uint32 `json:"port,omitempty"`
	Admin   *Admin `json:"admin,omitempty"`
}

// In reports whether the egress is in a zone. own is the zone of this control plane, in which is
// an egress that names none.
func (z *ZoneEgress) In(zone, own string) bool { return cmp.Or(z.Zone, own) == zone }

// Listens implements [Zonal].
func (z *ZoneEgress) Listens() (address string, port uint32) {
	if z.Networking == nil {
		return "", 0
	}
	return z.Networking.Address, z.Networking.Port
}

// Administered implements [Zonal].
func (z *ZoneEgress) Administered() *Admin {
	if z.Networking == nil {
		return nil
	}
	return z.Networking.Admin
}

// Adopt implements [Zonal].
func (*ZoneEgress) Adopt(Zonal) {}

// ZoneEgresses describes the resources.
var ZoneEgresses = model.Describe(ZoneEgress{}, model.Kind{
	Name: "zone_egress", Path: "zoneegresses", Scoping: model.Global, Class: model.Config,
	Document: &model.Document{
		Written: model.ByZones,
		Type:    "ZoneEgress", Singular: "Zone Egress", Plural: "Zone Egresses", OtherPaths: []string{"zone-egresses"},
		Validate: func(spec any) []fault.Violation { return spec.(*ZoneEgress).validate() },
	},
})

// validate returns all violations of a ZoneEgress.
func (z *ZoneEgress) validate() []fault.Violation {
	var vs violations
	n := z.Networking
	if n == nil {
		n = &ZoneEgressNetworking{}
	}
	vs.zoneAdmin(n.Admin, n.Address, n.Port)
	vs.zoneAddress("networking.address", n.Address)
	vs.port("networking.port", n.Port)
	return vs
}
