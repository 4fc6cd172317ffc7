package lifecycle

import (
	"context"
	"slices"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

const textOnline = "unable to delete Zone, Zone CP is still connected, please shut it down first"

// Zones returns the hook for [mesh.Zones]. It refuses to delete a zone whose control plane is
// connected, and deletes the ingresses and egresses of a zone with it. On a global control plane its
// dataplanes go, too: nobody can delete these one by one there, and they would keep their meshes from
// being deleted. online must not block.
func Zones(online func(zone string) bool, global bool) admit.Hook { return zones{online, global} }

type zones struct {
	online func(string) bool
	global bool
}

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
		if err := leave(tx, k, "", r.Name); err != nil {
			return err
		}
	}
	if !z.global {
		return nil
	}
	meshes, err := store.ListAll(tx, mesh.Meshes, store.Query{})
	if err != nil {
		return err
	}
	for _, m := range meshes {
		if err := leave(tx, mesh.Dataplanes, m.Name, r.Name); err != nil {
			return err
		}
	}
	return nil
}

// leave deletes the proxies of a zone.
func leave(tx store.Tx, k *model.Kind, scope, zone string) error {
	proxies, err := store.ListAll(tx, k, store.Query{Scope: scope})
	if err != nil {
		return err
	}
	for _, p := range proxies {
		if !isOf(zone, p.Spec) {
			continue
		}
		if err := tx.Delete(k, scope, p.Name, 0); err != nil {
			return err
		}
	}
	return nil
}

// isOf reports whether a proxy is one of a zone. One that cannot be decoded is of none, and stays.
func isOf(zone string, spec any) bool {
	switch spec := spec.(type) {
	case *mesh.ZoneIngress:
		return spec.Zone == zone
	case *mesh.ZoneEgress:
		return spec.Zone == zone
	case *mesh.Dataplane:
		return slices.ContainsFunc(spec.TagSets(), func(t mesh.Tags) bool { return t[mesh.TagZone] == zone })
	}
	return false
}

// EnsureZone creates a zone if it does not exist.
func EnsureZone(ctx context.Context, gate *admit.Gate, name string) error {
	_, err := gate.EnsureDocument(ctx, mesh.Zones, "", name, &mesh.Zone{Enabled: new(true)})
	return err
}
