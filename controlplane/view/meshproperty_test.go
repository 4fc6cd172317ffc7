package view_test

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
)

func drawInbound(t *rapid.T) mesh.Inbound {
	tags := mesh.Tags{}
	if s := rapid.SampledFrom([]string{"", "a", "a", "b", "c"}).Draw(t, "service"); s != "" {
		tags[mesh.TagService] = s
	}
	if v := rapid.SampledFrom([]string{"", "v1", "v2"}).Draw(t, "version"); v != "" {
		tags["version"] = v
	}
	in := mesh.Inbound{
		Port: rapid.Uint32Range(80, 82).Draw(t, "port"), Tags: tags,
		Address: rapid.SampledFrom([]string{"", "", "10.0.0.7"}).Draw(t, "address"),
		State:   rapid.SampledFrom([]string{"", "", "", mesh.StateReady, mesh.StateNotReady, mesh.StateIgnored}).Draw(t, "state"),
	}
	if rapid.IntRange(0, 3).Draw(t, "health") == 0 {
		in.Health = &mesh.Health{Ready: rapid.Bool().Draw(t, "ready")}
	}
	return in
}

func drawDataplane(t *rapid.T) *mesh.Dataplane {
	n := &mesh.Networking{
		Address:           rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}).Draw(t, "address"),
		AdvertisedAddress: rapid.SampledFrom([]string{"", "", "", "proxy.example"}).Draw(t, "advertised"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "inbounds") {
		n.Inbound = append(n.Inbound, drawInbound(t))
	}
	if len(n.Inbound) == 0 && rapid.Bool().Draw(t, "gateway") {
		n.Gateway = &mesh.Gateway{Tags: mesh.Tags{mesh.TagService: "a"}}
	}
	return &mesh.Dataplane{Networking: n}
}

func drawSelectors(t *rapid.T, label string) []mesh.Selector {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) mesh.Selector {
		s := rapid.SampledFrom([]string{"", "*", "a", "b", "nobody"}).Draw(t, "service")
		if s == "" {
			return mesh.Selector{Match: mesh.Tags{"version": "v1"}}
		}
		return mesh.Selector{Match: mesh.Tags{mesh.TagService: s}}
	}), 0, 3).Draw(t, label)
}

func drawIngress(t *rapid.T) *mesh.ZoneIngress {
	z := &mesh.ZoneIngress{
		Zone: rapid.SampledFrom([]string{"", mesh.DefaultZone, "east", "east", "north"}).Draw(t, "zone"),
		Networking: &mesh.ZoneIngressNetworking{
			AdvertisedAddress: rapid.SampledFrom([]string{"", "10.0.0.2", "10.0.0.9"}).Draw(t, "at"), AdvertisedPort: 81,
		},
	}
	for range rapid.IntRange(0, 3).Draw(t, "services") {
		z.AvailableServices = append(z.AvailableServices, mesh.AvailableService{
			Mesh: rapid.SampledFrom([]string{mesh.Default, mesh.Default, "other"}).Draw(t, "mesh"), Instances: rapid.Uint32Range(0, 3).Draw(t, "instances"),
			Tags: mesh.Tags{mesh.TagService: rapid.SampledFrom([]string{"a", "b", "far"}).Draw(t, "service"), "version": "v1"},
		})
	}
	return z
}

// drawWrite draws one write of any resource, in the mesh or outside of it.
func drawWrite(t *rapid.T) func(store.Tx) error {
	kind := rapid.SampledFrom([]*model.Kind{
		mesh.Dataplanes, mesh.Dataplanes, mesh.Dataplanes, permissions, permissions, traces, mesh.Meshes, mesh.Trusts, mesh.Secrets, gateway.Services,
		mesh.ZoneIngresses, mesh.ZoneIngresses, mesh.ZoneEgresses, mesh.Zones,
	}).Draw(t, "kind")
	scope := rapid.SampledFrom([]string{mesh.Default, mesh.Default, mesh.Default, "other"}).Draw(t, "scope")
	name := rapid.SampledFrom([]string{"n0", "n1", "n2", "n3", "n4"}).Draw(t, "name")
	var spec any
	switch kind {
	case mesh.Dataplanes:
		spec = drawDataplane(t)
	case permissions:
		spec = &permission{Connection: mesh.Connection{Sources: drawSelectors(t, "sources"), Destinations: drawSelectors(t, "destinations")}}
	case traces:
		spec = &trace{Selectors: drawSelectors(t, "selectors")}
	case mesh.ZoneIngresses:
		scope, spec = "", drawIngress(t)
	case mesh.ZoneEgresses:
		scope, spec = "", &mesh.ZoneEgress{
			Labelled:   model.Labelled{Labels: map[string]string{mesh.LabelOwner: mesh.OwnerAgent, mesh.LabelStarting: rapid.SampledFrom([]string{"", "true"}).Draw(t, "starting")}},
			Zone:       rapid.SampledFrom([]string{"", mesh.DefaultZone, "east"}).Draw(t, "zone"),
			Networking: &mesh.ZoneEgressNetworking{Address: rapid.SampledFrom([]string{"10.0.0.3", "10.0.0.4", "egress.example"}).Draw(t, "at"), Port: 1},
		}
	case mesh.Zones:
		enabled := rapid.Bool().Draw(t, "enabled")
		scope, name, spec = "", rapid.SampledFrom([]string{"east", "north"}).Draw(t, "zone"), &mesh.Zone{Enabled: &enabled}
	case mesh.Meshes:
		scope, name, spec = "", scope, &mesh.Mesh{}
	case mesh.Trusts:
		name, spec = scope, &mesh.Trust{Issuer: name}
	case mesh.Secrets:
		spec = &mesh.Secret{}
	case gateway.Services:
		spec = service()
	}
	if rapid.IntRange(0, 2).Draw(t, "delete") > 0 {
		return set(kind, scope, name, spec)
	}
	return func(tx store.Tx) error {
		if _, err := tx.Get(kind, scope, name); err != nil {
			return nil // nothing to delete
		}
		return tx.Delete(kind, scope, name, 0)
	}
}

// naiveServices computes the services of some dataplanes from the rules, without an index.
func naiveServices(ds []*view.Dataplane) []*view.MeshService {
	found := map[string][]view.Endpoint{}
	for _, d := range ds {
		for _, in := range d.Spec.Networking.Inbound {
			s := in.Tags[mesh.TagService]
			if s == "" {
				continue
			}
			address := d.Spec.Networking.Address
			if in.Address != "" {
				address = in.Address
			}
			if a := d.Spec.Networking.AdvertisedAddress; a != "" {
				address = a
			}
			ready := in.State != mesh.StateNotReady && in.State != mesh.StateIgnored && (in.Health == nil || in.Health.Ready)
			if _, known := found[s]; !known {
				found[s] = nil // the service exists even if it is not ready
			}
			if in.State != mesh.StateIgnored {
				found[s] = append(found[s], view.Endpoint{Address: address, Port: in.Port, Tags: in.Tags, Dataplane: d.ID, Ready: ready})
			}
		}
	}
	var out []*view.MeshService
	for _, name := range slices.Sorted(maps.Keys(found)) {
		slices.SortFunc(found[name], func(a, b view.Endpoint) int {
			return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Dataplane, b.Dataplane), cmp.Compare(a.Tags.String(), b.Tags.String()))
		})
		out = append(out, &view.MeshService{
			Name: name, Endpoints: found[name],
			Named: slices.ContainsFunc(found[name], func(e view.Endpoint) bool { return strings.Contains(e.Address, "example") }),
		})
	}
	return out
}

// ownServices are the services without what other zones have of them.
func ownServices(all, naive []*view.MeshService) (out []*view.MeshService) {
	for _, s := range all {
		own := &view.MeshService{Name: s.Name}
		for _, e := range s.Endpoints {
			if e.Ingress == "" {
				own.Endpoints = append(own.Endpoints, e)
				own.Named = own.Named || !e.IsIP()
			}
		}
		if len(own.Endpoints) > 0 || slices.ContainsFunc(naive, func(n *view.MeshService) bool { return n.Name == s.Name }) {
			out = append(out, own)
		}
	}
	return out
}

// naiveCandidates finds the policies that may match by looking at all of them.
func naiveCandidates(ps map[string][]*view.Policy) map[string][]string {
	out := map[string][]string{}
	for kind, all := range ps {
		for _, s := range services {
			for _, p := range all {
				may := len(p.Destinations) == 0
				for _, d := range p.Destinations {
					v, named := d[mesh.TagService]
					may = may || !named || v == "*" || v == s
				}
				if may {
					out[kind+" "+s] = append(out[kind+" "+s], p.Name)
				}
			}
		}
	}
	return out
}

// TestMeshFollowsAnyHistory: after every batch of random writes, the state made from changes
// equals a loaded one, and both follow the rules. A service keeps its pointer if and only if
// it has not changed.
func TestMeshFollowsAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := openMesh(t, memstore.New())
		defer f.close()
		before := f.scope.State()
		for range rapid.IntRange(1, 12).Draw(t, "batches") {
			writes := rapid.SliceOfN(rapid.Custom(drawWrite), 1, 6).Draw(t, "writes")
			state := f.commit(t, func(tx store.Tx) error {
				for _, w := range writes {
					if err := w(tx); err != nil {
						return err
					}
				}
				return nil
			}).State
			got := contentOf(state)
			if d := diff(contentOf(f.loaded(t)), got); d != "" {
				t.Fatalf("deltas made another state than a load (-loaded +applied):\n%s", d)
			}
			naive := naiveServices(got.Dataplanes)
			if d := diff(naive, ownServices(got.Services, naive)); d != "" {
				t.Fatalf("services (-rules +got):\n%s", d)
			}
			if d := diff(naiveCandidates(got.Policies), got.Candidates); d != "" {
				t.Fatalf("candidates (-rules +got):\n%s", d)
			}
			for _, now := range got.Services {
				was := before.Service(now.Name)
				if was != nil && (was == now) != (diff(was, now) == "") {
					t.Fatalf("service %s: the same pointer is %v, the difference is %q", now.Name, was == now, diff(was, now))
				}
			}
			before = state
		}
	})
}
