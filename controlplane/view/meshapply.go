package view

import (
	"fmt"
	"maps"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// meshSource reads and follows a mesh. The Mesh resource is in the global scope, as are zones and
// their ingresses, and what is known of other meshes, all else in the scope of the mesh, whose name may also be that of a control plane. Insights and gateway
// kinds do not belong to the view, and of secrets only what others refer to.
func meshSource(name, zone string, policies []*model.Kind) source[*Mesh] {
	kinds := kindsByName(policies)
	load := func(r store.Reader) (*Mesh, error) { return loadMesh(name, zone, kinds, r) }
	return source[*Mesh]{load: load, read: load, mine: (&Mesh{name: name, kinds: kinds}).mine}
}

// mine reports whether a key may be part of the mesh.
func (m *Mesh) mine(key model.Key) bool {
	switch key.Kind {
	case mesh.Meshes.Name:
		return key.Scope == "" && key.Name == m.name
	case mesh.ZoneIngresses.Name, mesh.ZoneEgresses.Name, mesh.Zones.Name:
		return key.Scope == ""
	case mesh.Crossings.Name:
		return key.Scope == "" && m.kinds[key.Kind] != nil
	case mesh.Trusts.Name:
		return key.Scope == m.name && key.Name == m.name
	case mesh.Dataplanes.Name, mesh.VirtualOutbounds.Name, mesh.Addresses.Name, mesh.Secrets.Name:
		return key.Scope == m.name
	}
	return key.Scope == m.name && m.kinds[key.Kind] != nil
}

// kindsByName returns the given kinds and those of gateways, which every view of a mesh holds and
// chooses by selectors, as policies are.
func kindsByName(kinds []*model.Kind) map[string]*model.Kind {
	out := make(map[string]*model.Kind, len(kinds)+2)
	for _, k := range append([]*model.Kind{mesh.MeshGateways, mesh.MeshGatewayRoutes}, kinds...) {
		out[k.Name] = k
	}
	return out
}

// LoadMesh reads a whole mesh once, without following it.
func LoadMesh(name string, policies []*model.Kind, r store.Reader) (*Mesh, error) {
	return loadMesh(name, mesh.DefaultZone, kindsByName(policies), r)
}

// loadMesh reads a mesh. With nil for kinds it reads nothing but its services, those of other zones
// among them, and what they are protected by.
func loadMesh(name, zone string, kinds map[string]*model.Kind, r store.Reader) (*Mesh, error) {
	d := draftOfMesh(&Mesh{name: name, kinds: kinds, remote: remote{own: zone}}, r)
	for key, k := range map[model.Key]*model.Kind{
		{Kind: mesh.Meshes.Name, Name: name}:              mesh.Meshes,
		{Kind: mesh.Trusts.Name, Scope: name, Name: name}: mesh.Trusts,
	} {
		if _, err := d.reread(k, key); err != nil {
			return nil, fmt.Errorf("read %s %s: %w", key.Kind, name, err)
		}
	}
	if err := d.list(mesh.Dataplanes); err != nil {
		return nil, err
	}
	for _, k := range []*model.Kind{mesh.ZoneIngresses, mesh.ZoneEgresses, mesh.Zones} {
		if err := d.listGlobal(k); err != nil {
			return nil, err
		}
	}
	if kinds == nil {
		return d.freeze(), nil
	}
	for _, k := range append([]*model.Kind{mesh.VirtualOutbounds, mesh.Addresses}, slices.Collect(maps.Values(kinds))...) {
		scope := name
		if k.Scoping == model.Global {
			scope = ""
		}
		if err := d.listIn(k, scope); err != nil {
			return nil, err
		}
	}
	return d.freeze(), nil
}

// meshDraft is the next state of a mesh during its construction. Parts that depend on several
// resources are made by freeze, once for all changes of a batch.
type meshDraft struct {
	reader store.Reader
	from   *Mesh
	spec   *Entry[mesh.Mesh]
	trust  *Entry[mesh.Trust]
	// dataplanes, policies and located hold the changes, by name and by kind and name; nil
	// means deleted.
	dataplanes map[string]*Dataplane
	policies   map[string]map[string]*Policy
	located    map[string]map[string]Locating
	// rules and addresses hold the changes of these by name; nil means deleted.
	rules     map[string]*namingRule
	addresses map[string]*Entry[mesh.Address]
	zones     ofZones
}

func draftOfMesh(m *Mesh, r store.Reader) *meshDraft {
	return &meshDraft{
		reader: r, from: m, spec: m.spec, trust: m.trust,
		dataplanes: map[string]*Dataplane{}, policies: map[string]map[string]*Policy{}, located: map[string]map[string]Locating{},
		rules: map[string]*namingRule{}, addresses: map[string]*Entry[mesh.Address]{},
		zones: ofZones{map[string]*Entry[mesh.ZoneIngress]{}, map[string]*Entry[mesh.ZoneEgress]{}, map[string]*Entry[mesh.Zone]{}},
	}
}

// at implements [State].
func (m *Mesh) at(revision uint64) *Mesh {
	next := *m
	next.revision = revision
	return &next
}

// apply implements [State]. Keys of other kinds are ignored.
func (m *Mesh) apply(r store.Reader, keys []model.Key) (next *Mesh, relevant []model.Key, err error) {
	d := draftOfMesh(m, r)
	// A transaction that is imagined may have written elsewhere, too, under the same names.
	keys = slices.DeleteFunc(slices.Clone(keys), func(key model.Key) bool { return !m.mine(key) })
	for _, key := range m.withReferrers(keys) {
		k := m.kindOf(key)
		if k == nil {
			continue
		}
		changed, err := d.reread(k, key)
		if err != nil {
			return nil, nil, fmt.Errorf("refresh %s %s: %w", key.Kind, key.Name, err)
		}
		if changed {
			relevant = append(relevant, key)
		}
	}
	return d.freeze(), relevant, nil
}

func (m *Mesh) kindOf(key model.Key) *model.Kind {
	for _, k := range [...]*model.Kind{mesh.Meshes, mesh.Trusts, mesh.Dataplanes, mesh.VirtualOutbounds, mesh.Addresses, mesh.ZoneIngresses, mesh.ZoneEgresses, mesh.Zones} {
		if key.Kind == k.Name {
			return k
		}
	}
	return m.kinds[key.Kind]
}

// reread reads one resource again, and reports whether it existed before or exists now.
func (d *meshDraft) reread(k *model.Kind, key model.Key) (bool, error) {
	res, err := d.reader.Get(k, key.Scope, key.Name)
	switch {
	case fault.Is(err, fault.NotFound):
		return d.drop(k, key.Name), nil
	case k == mesh.Crossings && key.Name != d.from.name && store.UnreadIn(err) != nil:
		return d.drop(k, key.Name), nil // it is not there, as for who reads the mesh anew
	case err != nil:
		return false, err
	case k == mesh.ZoneIngresses:
		return d.putIngress(entryOf[mesh.ZoneIngress](res)), nil
	case k == mesh.ZoneEgresses:
		return d.putEgress(entryOf[mesh.ZoneEgress](res)), nil
	}
	return true, d.put(res)
}

func (d *meshDraft) list(k *model.Kind) error { return d.listIn(k, d.from.name) }

func (d *meshDraft) listGlobal(k *model.Kind) error { return d.listIn(k, "") }

func (d *meshDraft) listIn(k *model.Kind, scope string) error {
	rs, err := d.reader.List(k, store.Query{Scope: scope})
	if k == mesh.Crossings && store.UnreadIn(err) != nil {
		rs, err = d.othersUnread()
	}
	if err != nil {
		return fmt.Errorf("list %s of mesh %s: %w", k.Path, d.from.name, err)
	}
	for _, res := range rs {
		if err := d.put(res); err != nil {
			return err
		}
	}
	return nil
}

// othersUnread lists what meshes let others know if some of it cannot be read. What cannot be read of
// another mesh is as if it were not there; the own mesh must be readable.
func (d *meshDraft) othersUnread() (out []*model.Resource, err error) {
	all, err := store.ListAll(d.reader, mesh.Crossings, store.Query{})
	for _, res := range all {
		unread, is := res.Spec.(*store.Unread)
		switch {
		case !is:
			out = append(out, res)
		case res.Name == d.from.name:
			return nil, unread.Why
		}
	}
	return out, err
}

func (d *meshDraft) put(res *model.Resource) error {
	switch res.Kind {
	case mesh.Meshes:
		d.spec = entryOf[mesh.Mesh](res)
	case mesh.Trusts:
		d.trust = entryOf[mesh.Trust](res)
	case mesh.Dataplanes:
		d.dataplanes[res.Name] = entryOf[mesh.Dataplane](res)
	case mesh.VirtualOutbounds:
		d.rules[res.Name] = &namingRule{res.Name, entryOf[mesh.VirtualOutbound](res).Spec.Namer()}
	case mesh.Addresses:
		d.addresses[res.Name] = entryOf[mesh.Address](res)
	case mesh.ZoneIngresses:
		d.putIngress(entryOf[mesh.ZoneIngress](res))
	case mesh.ZoneEgresses:
		d.putEgress(entryOf[mesh.ZoneEgress](res))
	case mesh.Zones:
		d.zones.zones[res.Name] = entryOf[mesh.Zone](res)
	default:
		if spec, ok := res.Spec.(Resolving); ok {
			return d.resolve(res, spec)
		}
		if spec, ok := res.Spec.(Locating); ok {
			put(d.located, res.Kind, res.Name, spec)
			return nil
		}
		p, err := policyOf(res)
		if err == nil {
			err = d.certify(p)
		}
		if err != nil {
			return err
		}
		put(d.policies, res.Kind, res.Name, p)
	}
	return nil
}

// drop removes a resource and reports whether it existed.
func (d *meshDraft) drop(k *model.Kind, name string) (was bool) {
	switch k {
	case mesh.Meshes:
		was, d.spec = d.spec != nil, nil
	case mesh.Trusts:
		was, d.trust = d.trust != nil, nil
	case mesh.Dataplanes:
		if _, was = d.from.dataplanes.get(name); was {
			d.dataplanes[name] = nil
		}
	case mesh.VirtualOutbounds:
		if _, was = d.from.naming.rules.get(name); was {
			d.rules[name] = nil
		}
	case mesh.Addresses:
		if _, was = d.from.addresses.get(name); was {
			d.addresses[name] = nil
		}
	case mesh.ZoneIngresses:
		was = d.dropIngress(name)
	case mesh.ZoneEgresses:
		was = d.dropEgress(name)
	case mesh.Zones:
		was, d.zones.zones[name] = true, nil
	default:
		if _, was = d.from.located[k.Name].specs.get(name); was {
			put(d.located, k, name, nil)
		} else if was = d.from.policies[k.Name].get(name) != nil; was {
			put(d.policies, k, name, nil)
		}
	}
	return was
}

// put sets the new state of a resource of a kind.
func put[V any](into map[string]map[string]V, k *model.Kind, name string, now V) {
	if into[k.Name] == nil {
		into[k.Name] = map[string]V{}
	}
	into[k.Name][name] = now
}

func (d *meshDraft) freeze() *Mesh {
	next := d.from.at(d.reader.Revision())
	next.spec, next.trust = d.spec, d.trust
	next.naming = d.name()
	if len(d.addresses) > 0 {
		all := editOf(d.from.addresses)
		for host, now := range d.addresses {
			if now == nil {
				all.drop(host)
			} else {
				all.put(host, now)
			}
		}
		next.addresses = all.table
	}
	if len(d.dataplanes) > 0 || !d.zones.none() {
		all, endpoints := editOf(d.from.dataplanes), newEndpointEdit(d.from)
		for name, now := range d.dataplanes {
			was, _ := d.from.dataplanes.get(name)
			endpoints.change(name, was, now)
			if now == nil {
				all.drop(name)
			} else {
				all.put(name, now)
			}
		}
		next.dataplanes = all.table
		next.remote = d.freezeZones(endpoints)
		next.services, next.inbounds = endpoints.freeze()
	}
	if len(d.policies) > 0 {
		next.policies = maps.Clone(d.from.policies)
		if next.policies == nil {
			next.policies = map[string]policyIndex{}
		}
		for kind, changed := range d.policies {
			next.policies[kind] = next.policies[kind].with(changed)
		}
	}
	if len(d.located) > 0 {
		next.located = maps.Clone(d.from.located)
		if next.located == nil {
			next.located = map[string]locatedIndex{}
		}
		for kind, changed := range d.located {
			next.located[kind] = next.located[kind].with(changed)
		}
	}
	return next
}
