package lifecycle

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

const textOnline = "unable to delete Zone, Zone CP is still connected, please shut it down first"

// Zones returns the hook for [mesh.Zones]. It refuses to delete a zone whose control plane is
// connected, and deletes the ingresses and egresses of a zone with it. online must not block.
func Zones(online func(zone string) bool) admit.Hook { return zones{online} }

type zones struct{ online func(string) bool }

// Prepare implements admit.Hook.
func (zones) Prepare(context.Context, store.Reader, string, any) (any, error) { return nil, nil }

// Stored implements admit.Hook.
func (zones) Stored(store.Tx, *model.Resource, *model.Resource, any) error { return nil }

// Deleting implements admit.Hook.
func (z zones) Deleting(tx store.Tx, r *model.Resource) error {
	if z.online(r.Name) {
		return fault.Violated([]fault.Violation{{Path: "zone", Message: textOnline}})
	}
	for _, k := range []*model.Kind{mesh.ZoneIngresses, mesh.ZoneEgresses} {
		proxies, err := store.ListAll(tx, k, store.Query{})
		if err != nil {
			return err
		}
		for _, p := range proxies {
			if zoneOf(p.Spec) != r.Name {
				continue
			}
			if err := tx.Delete(k, "", p.Name, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// zoneOf returns the zone that the proxy of a zone names. One that cannot be decoded names none,
// and stays.
func zoneOf(spec any) string {
	switch spec := spec.(type) {
	case *mesh.ZoneIngress:
		return spec.Zone
	case *mesh.ZoneEgress:
		return spec.Zone
	}
	return ""
}

// EnsureZone creates a zone if it does not exist.
func EnsureZone(ctx context.Context, gate *admit.Gate, name string) error {
	_, err := gate.EnsureDocument(ctx, mesh.Zones, "", name, &mesh.Zone{Enabled: new(true)})
	return err
}
