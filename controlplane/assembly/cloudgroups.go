package assembly

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/cloudapi"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
)

// planeNamed returns the scope of the control plane of a name or id.
func (cp *ControlPlane) planeNamed(ctx context.Context, named string) (scope string, err error) {
	if named == model.DefaultControlPlane {
		return named, nil
	}
	err = cp.store.View(ctx, func(r store.Reader) error {
		scope, err = cloud.ScopeNamed(r, named)
		return err
	})
	return scope, err
}

// plane is a control plane: where its entities are, and what people call it.
type plane struct{ scope, name string }

// path is that of something on the API where it is changed.
func (p plane) path(entity string) string {
	if p.scope == model.DefaultControlPlane {
		return entity
	}
	return "/v2/control-planes/" + p.scope + "/core-entities" + entity
}

// of adds to a text which control plane it is about; nothing if there is one only.
func (p plane) of(all []plane) string {
	if len(all) < 2 {
		return ""
	}
	return " of control plane " + p.name
}

// controlPlanes lists all control planes, the first one among them in any case.
func controlPlanes(r store.Reader) ([]plane, error) {
	rows, err := store.ListAll(r, cloud.ControlPlanes, store.Query{})
	if err != nil {
		return nil, fmt.Errorf("list control planes: %w", err)
	}
	out := []plane{{model.DefaultControlPlane, model.DefaultControlPlane}}
	for _, row := range rows {
		if row.Name == cloud.DefaultID {
			continue
		}
		p := plane{cloud.ScopeOf(row.Name), row.Name}
		if spec, ok := row.Spec.(*cloud.ControlPlane); ok {
			p.name = spec.Name
		}
		out = append(out, p)
	}
	return out, nil
}

// controlPlaneScopes lists the scopes of all control planes.
func controlPlaneScopes(r store.Reader) (out []string, err error) {
	all, err := controlPlanes(r)
	for _, p := range all {
		out = append(out, p.scope)
	}
	return out, err
}

// gatewayFleet knows the gateways of control planes for the cloud API.
type gatewayFleet struct{ cp *ControlPlane }

// Gateways implements [cloudapi.Fleet].
func (f gatewayFleet) Gateways(planes ...string) []nodes.Node {
	return f.cp.nodes.List(nodes.Query{Sees: func(id string) bool {
		mesh, plane := nodes.ScopeOf(id)
		return mesh == "" && slices.Contains(planes, plane)
	}}).Nodes
}

// LeftOut implements [cloudapi.Fleet].
func (f gatewayFleet) LeftOut(scope string) ([]scopes.Clash, uint64, bool) {
	return f.cp.loop.LeftOut(scope)
}

// planeOptions are what the cloud API needs for control planes.
func (cp *ControlPlane) planeOptions() cloudapi.PlaneOptions {
	name := "localhost"
	if given := cp.names()[len(ownNames):]; len(given) > 0 {
		name = given[0]
	}
	at := "https://" + net.JoinHostPort(name, strconv.Itoa(port(cp.ports.data)))
	o := cp.adminOptions()
	o.Rules, o.Entities, o.Guard = cp.cfg.Access.StrictRules(), true, nil
	o.Nodes, o.Dumps, o.Explain, o.Conditions, o.ReadOnly = nil, nil, nil, nil, ""
	declared := ""
	if cp.cfg.Gateway.Declarative != "" {
		declared = readOnlyText
	}
	entities := gatewayapi.New(o)
	return cloudapi.PlaneOptions{
		Declared: declared,
		Fleet:    gatewayFleet{cp}, Endpoint: at, Telemetry: at, Entities: entities.Endpoints(), Enter: gatewayapi.In, Unlisted: gatewayapi.Unlisted, Describe: entities.Describe,
		Recheck:      func(ctx context.Context) { cp.recheck(ctx) },
		Organization: cloudapi.Organization{ID: cp.authority.ID(), Name: cp.cfg.Mesh.Product},
		Region:       cp.cfg.Cloud.Region,
	}
}
