// Package trafficpermission is the policy that says who may call a service (requirement
// "TrafficPermission"). It is chosen by the destination; its sources are the permitted
// callers. If no policy is chosen, nobody may call.
//
// The policy need not close the workload's own port at a transparent proxy. It judges only
// certificates, and connections to that port are in clear. In a STRICT mesh, connections to a
// port without a listener do not pass. In a PERMISSIVE mesh, and without mutual TLS, callers
// in clear also pass at the port of the inbound, whatever permissions say. So a caller with a
// certificate but without permission gains nothing at that port that it does not have in
// clear.
package trafficpermission

import (
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/callers"
)

// Spec says who may call whom.
type Spec struct {
	model.Labelled
	mesh.Connection
}

// Kind describes the resources.
var Kind = model.Describe(Spec{}, model.Kind{
	Name: "traffic_permission", Path: "traffic-permissions", Scoping: model.Mesh, Class: model.Config,
	Document: &model.Document{
		Type: "TrafficPermission", Singular: "Traffic Permission", Plural: "Traffic Permissions",
		Policy: true, Inbound: true,
		Default:  func(any) {},
		Validate: validate,
	},
})

// Policy edits inbounds. It has an effect only where peers are authenticated. Where a
// MeshTrafficPermission is chosen, that one decides alone.
var Policy = &policy.Policy{
	Kind: Kind, Phase: policy.Settings, Attachment: policy.ByInbound, Egress: true, Refuses: policy.RefusesAuthenticated,
	Yields:  "mesh_traffic_permission",
	Edits:   policy.Edits{Inbound: inbound, InboundRoutes: inboundRoutes},
	Facts:   callers.Facts(func(s *Spec) []mesh.Selector { return s.Sources }),
	Explain: explain, Closed: closed,
}

// closed says who is refused if no permission admits anybody.
func closed(m *mesh.Mesh) string {
	switch a := m.Authority(); {
	case a == nil:
		return ""
	case a.Mode == mesh.ModePermissive:
		return "every caller is refused that comes with a certificate of the mesh"
	}
	return "everybody is refused"
}

func validate(spec any) []fault.Violation {
	s := spec.(*Spec)
	return append(mesh.CheckAny("sources", s.Sources), mesh.CheckAny("destinations", s.Destinations)...)
}
