package lifecycle_test

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/lifecycle"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TestGlobalZones: the dataplanes of a zone go with it on a global control plane, in all meshes, and on no
// other one.
func TestGlobalZones(t *testing.T) {
	for global, want := range map[bool][]string{
		false: {"default/also-west", "default/east", "default/nowhere", "default/west", "shop/west"},
		true:  {"default/east", "default/nowhere"},
	} {
		w := setup(t)
		kinds := []*model.Kind{mesh.Meshes, mesh.Dataplanes, mesh.Zones, mesh.ZoneIngresses, mesh.ZoneEgresses}
		w.gate = admit.New(w.store, &admittest.Revoker{}, kinds, time.Now).As(model.System("test"))
		w.gate.Hook(mesh.Zones, lifecycle.Zones(func(string) bool { return false }, global))
		w.must(lifecycle.EnsureZone(w.Context(), w.gate, "west"))
		in := func(zones ...string) *mesh.Dataplane {
			d := &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1"}}
			for i, zone := range zones {
				tags := mesh.Tags{mesh.TagService: "backend"}
				if zone != "" {
					tags[mesh.TagZone] = zone
				}
				d.Networking.Inbound = append(d.Networking.Inbound, mesh.Inbound{Port: uint32(80 + i), Tags: tags})
			}
			return d
		}
		for _, name := range []string{"default", "shop"} {
			w.must(w.put(mesh.Meshes, "", name, &mesh.Mesh{}))
			w.must(w.put(mesh.Dataplanes, name, "west", in("west")))
		}
		w.must(w.put(mesh.Dataplanes, "default", "also-west", in("east", "west")))
		w.must(w.put(mesh.Dataplanes, "default", "east", in("east")))
		w.must(w.put(mesh.Dataplanes, "default", "nowhere", in("")))
		_, err := w.gate.DeleteDocument(w.Context(), mesh.Zones, "", "west")
		w.must(err)
		var left []string
		w.must(w.store.View(w.Context(), func(r store.Reader) error {
			for _, scope := range []string{"default", "shop"} {
				list, err := r.List(mesh.Dataplanes, store.Query{Scope: scope})
				if err != nil {
					return err
				}
				for _, res := range list {
					left = append(left, scope+"/"+res.Name)
				}
			}
			return nil
		}))
		w.same(want, left)
	}
}

// TestZones: a zone whose control plane is connected stays, and another one takes its ingresses
// and egresses along, and no others.
func TestZones(t *testing.T) {
	w := setup(t)
	online := map[string]bool{"east": true}
	kinds := []*model.Kind{mesh.Zones, mesh.ZoneIngresses, mesh.ZoneEgresses}
	w.gate = admit.New(w.store, &admittest.Revoker{}, kinds, time.Now).As(model.System("test"))
	w.gate.Hook(mesh.Zones, lifecycle.Zones(func(zone string) bool { return online[zone] }, false))
	remove := func(name string) error {
		_, err := w.gate.DeleteDocument(w.Context(), mesh.Zones, "", name)
		return err
	}
	for _, zone := range []string{"east", "west"} {
		w.must(lifecycle.EnsureZone(w.Context(), w.gate, zone))
		w.must(w.put(mesh.ZoneIngresses, "", "in-"+zone, &mesh.ZoneIngress{Zone: zone, Networking: &mesh.ZoneIngressNetworking{Port: 1}}))
		w.must(w.put(mesh.ZoneEgresses, "", "out-"+zone, &mesh.ZoneEgress{Zone: zone, Networking: &mesh.ZoneEgressNetworking{Port: 1}}))
	}
	w.must(w.put(mesh.ZoneIngresses, "", "in", &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Port: 1}}))
	w.same([]string{"zone: unable to delete Zone, Zone CP is still connected, please shut it down first"}, violations(remove("east")))
	left := func() (out []string) {
		w.must(w.store.View(w.Context(), func(r store.Reader) error {
			for _, k := range kinds {
				list, err := r.List(k, store.Query{})
				if err != nil {
					return err
				}
				for _, res := range list {
					out = append(out, res.Name)
				}
			}
			return nil
		}))
		return out
	}
	w.same([]string{"east", "west", "in", "in-east", "in-west", "out-east", "out-west"}, left())
	w.must(remove("west"))
	w.same([]string{"east", "in", "in-east", "out-east"}, left())
	if err := remove("west"); !fault.Is(err, fault.NotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	off := mesh.Zone{Enabled: new(bool)}
	w.must(w.put(mesh.Zones, "", "east", &off))
	w.must(lifecycle.EnsureZone(w.Context(), w.gate, "east"))
	w.must(w.store.View(w.Context(), func(r store.Reader) error {
		res, err := r.Get(mesh.Zones, "", "east")
		if err == nil && res.Spec.(*mesh.Zone).IsEnabled() {
			t.Error("a zone that was switched off is on again")
		}
		return err
	}))
}
