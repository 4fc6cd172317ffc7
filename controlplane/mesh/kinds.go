package mesh

import (
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// The kinds of the mesh that are not policies.
var (
	// Meshes are the scopes of everything else. They are sealed because they may contain the
	// key of a provided authority.
	Meshes = model.Describe(Mesh{}, model.Kind{
		Name: model.MeshKind, Path: "meshes", Scoping: model.Global, Class: model.Config, Sealed: true,
		// The free parts of a mesh may contain any secret.
		Secrets: []string{
			"/mtls/backends/*/conf/key/inline", "/mtls/backends/*/conf/key/inlineString",
			"/mtls/backends/*/conf/cert/inline", "/mtls/backends/*/conf/cert/inlineString",
			"/tracing/backends/*/conf", "/logging/backends/*/conf", "/metrics/backends/*/conf",
		},
		Document: &model.Document{
			Type: "Mesh", Singular: "Mesh", Plural: "Meshes",
			Default:  func(spec any) { spec.(*Mesh).complete() },
			Validate: func(spec any) []fault.Violation { return spec.(*Mesh).validate() },
			Idle:     func(spec any) []fault.Violation { return spec.(*Mesh).idle() },
			Cross:    crossMesh,
		},
	})
	// Dataplanes are gateways, and proxies beside workloads.
	Dataplanes = model.Describe(Dataplane{}, model.Kind{
		Name: "dataplane", Path: "dataplanes", Scoping: model.Mesh, Class: model.Config,
		Document: &model.Document{
			Written: model.ByZones,
			Type:    "Dataplane", Singular: "Dataplane", Plural: "Dataplanes",
			Validate: func(spec any) []fault.Violation { return spec.(*Dataplane).validate() },
			Keep:     keepReadiness,
			Cross:    crossDataplane,
		},
	})
	// Secrets belong to a mesh.
	Secrets = model.Describe(Secret{}, model.Kind{
		Name: "mesh_secret", Path: "secrets", Scoping: model.Mesh, Class: model.Config, Sealed: true,
		Secrets:  []string{"/data"},
		Document: &model.Document{Type: "Secret", Singular: "Secret", Plural: "Secrets", AdminOnly: true},
	})
	// GlobalSecrets belong to the control plane.
	GlobalSecrets = model.Describe(Secret{}, model.Kind{
		Name: "global_secret", Path: "global-secrets", Scoping: model.Global, Class: model.Config, Sealed: true,
		Secrets: []string{"/data"},
		Document: &model.Document{
			Type: "GlobalSecret", Aliases: []string{"Secret"}, Singular: "Global Secret", Plural: "Global Secrets", AdminOnly: true,
		},
	})
	// Trusts hold the roots that meshes trust; see [Trust].
	Trusts = model.Describe(Trust{}, model.Kind{
		Name: "mesh_trust", Path: "mesh-trusts", Scoping: model.Mesh, Class: model.Config, ReadOnly: true,
	})
)

// Kinds lists the kinds of the mesh that are not policies.
func Kinds() []*model.Kind {
	return []*model.Kind{
		Meshes, Dataplanes, VirtualOutbounds, ExternalServices, MeshGateways, MeshGatewayRoutes, Secrets, GlobalSecrets, Trusts, Addresses, Crossings,
		Zones, ZoneIngresses, ZoneEgresses,
	}
}
