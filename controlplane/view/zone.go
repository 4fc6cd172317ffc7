package view

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Zone is what the proxies of a zone, which belong to no mesh, go by at one store revision: the
// services of all meshes with mutual TLS, with those of other zones, and the ingresses and egresses
// of the zone. Without mutual TLS nobody could tell what a connection is for, so other meshes are
// left out. No mesh is read while the zone has no such proxy. A Zone is immutable. A mesh that is
// left through egresses is there with its policies and services outside, others are without.
type Zone struct {
	name     string
	revision uint64
	// kinds are those that a mesh with policies holds.
	kinds  map[string]*model.Kind
	meshes map[string]*Mesh
	// sick are the meshes of which a row cannot be read. They show their last good state.
	sick      map[string]error
	ingresses map[string]*Entry[mesh.ZoneIngress]
	egresses  map[string]*Entry[mesh.ZoneEgress]
}

// idle reports whether the zone has no proxy.
func (z *Zone) idle() bool { return len(z.ingresses)+len(z.egresses) == 0 }

// Name returns the name of the zone.
func (z *Zone) Name() string { return z.name }

// Revision returns the store revision of this state, which is complete.
func (z *Zone) Revision() uint64 { return z.revision }

// Meshes yields the meshes with mutual TLS, in no particular order. A mesh keeps its pointer as
// long as nothing of it changes that matters here.
func (z *Zone) Meshes() iter.Seq2[string, *Mesh] { return maps.All(z.meshes) }

// Sick yields the meshes that cannot be read, with the reasons.
func (z *Zone) Sick() iter.Seq2[string, error] { return maps.All(z.sick) }

// Ingresses yields the ingresses of the zone, in no particular order.
func (z *Zone) Ingresses() iter.Seq2[string, *Entry[mesh.ZoneIngress]] { return maps.All(z.ingresses) }

// Egresses yields the egresses of the zone, in no particular order.
func (z *Zone) Egresses() iter.Seq2[string, *Entry[mesh.ZoneEgress]] { return maps.All(z.egresses) }

// Proxy returns the spec of a proxy of the zone by its type and name, nil if there is none.
func (z *Zone) Proxy(proxyType, name string) mesh.Zonal {
	if e := z.ingresses[name]; proxyType == mesh.ProxyIngress && e != nil {
		return e.Spec
	}
	if e := z.egresses[name]; proxyType == mesh.ProxyEgress && e != nil {
		return e.Spec
	}
	return nil
}

// zoneSource reads and follows a zone. policies are those of [Views].
func zoneSource(name string, policies []*model.Kind) source[*Zone] {
	kinds := kindsByName(policies)
	load := func(r store.Reader) (*Zone, error) { return loadZone(name, kinds, r) }
	return source[*Zone]{load: load, read: load, mine: (&Zone{kinds: kinds}).mine}
}

// mine reports whether a key may be part of a zone.
func (z *Zone) mine(key model.Key) bool {
	switch key.Kind {
	case mesh.Meshes.Name, mesh.ZoneIngresses.Name, mesh.ZoneEgresses.Name, mesh.Zones.Name:
		return key.Scope == ""
	case mesh.Dataplanes.Name, mesh.Trusts.Name, mesh.Secrets.Name:
		return key.Scope != ""
	}
	return key.Scope != "" && z.kinds[key.Kind] != nil
}

func loadZone(name string, kinds map[string]*model.Kind, r store.Reader) (*Zone, error) {
	d := (&Zone{name: name, kinds: kinds}).edit(r)
	for _, k := range []*model.Kind{mesh.ZoneIngresses, mesh.ZoneEgresses} {
		all, err := r.List(k, store.Query{})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", k.Path, err)
		}
		for _, res := range all {
			d.put(res)
		}
	}
	return d.Zone, d.all()
}

// all reads all meshes, if somebody needs them.
func (d *zoneEdit) all() error {
	if d.idle() {
		return nil
	}
	meshes, err := d.list()
	if err != nil {
		return err
	}
	for _, res := range meshes {
		if err := d.mesh(res.Name, nil); err != nil {
			return err
		}
	}
	return nil
}

// list returns the meshes that can be read, and notes the others: nobody knows whether they have
// mutual TLS.
func (d *zoneEdit) list() ([]*model.Resource, error) {
	meshes, unreadable, err := store.ListReadable(d.reader, mesh.Meshes, "")
	if err != nil {
		return nil, fmt.Errorf("list meshes: %w", err)
	}
	delete(d.sick, "")
	if len(unreadable) > 0 {
		d.sick[""] = errors.Join(unreadable...)
	}
	return meshes, nil
}

// zoneEdit is the next state of a zone during its construction.
type zoneEdit struct {
	*Zone
	reader store.Reader
}

func (z *Zone) edit(r store.Reader) *zoneEdit {
	next := &Zone{
		name: z.name, revision: r.Revision(), kinds: z.kinds, meshes: maps.Clone(z.meshes), sick: maps.Clone(z.sick),
		ingresses: maps.Clone(z.ingresses), egresses: maps.Clone(z.egresses),
	}
	if next.meshes == nil {
		next.meshes, next.sick = map[string]*Mesh{}, map[string]error{}
		next.ingresses, next.egresses = map[string]*Entry[mesh.ZoneIngress]{}, map[string]*Entry[mesh.ZoneEgress]{}
	}
	return &zoneEdit{next, r}
}

func (d *zoneEdit) put(res *model.Resource) {
	switch own := res.Spec.(mesh.Zonal).In(d.name, d.name); {
	case !own:
		d.drop(res.Kind, res.Name)
	case res.Kind == mesh.ZoneIngresses:
		d.ingresses[res.Name] = entryOf[mesh.ZoneIngress](res)
	default:
		d.egresses[res.Name] = entryOf[mesh.ZoneEgress](res)
	}
}

func (d *zoneEdit) drop(k *model.Kind, name string) {
	if k == mesh.ZoneIngresses {
		delete(d.ingresses, name)
	} else {
		delete(d.egresses, name)
	}
}

// at implements [State].
func (z *Zone) at(revision uint64) *Zone {
	next := *z
	next.revision = revision
	return &next
}

// apply implements [State]. Keys of other kinds are ignored.
func (z *Zone) apply(r store.Reader, keys []model.Key) (next *Zone, relevant []model.Key, err error) {
	d := z.edit(r)
	changed := map[string][]model.Key{}
	var everywhere []model.Key // which may concern any mesh
	for _, key := range keys {
		switch {
		case !z.mine(key) || z.ignores(key):
			continue
		case key.Kind == mesh.Meshes.Name:
			changed[key.Name] = append(changed[key.Name], key)
		case key.Scope != "":
			changed[key.Scope] = append(changed[key.Scope], key)
		case key.Kind == mesh.Zones.Name:
			everywhere = append(everywhere, key)
		default:
			if err := d.proxy(mesh.ZoneKind(mesh.ZoneProxyOf(key.Kind)), key.Name); err != nil {
				return nil, nil, err
			}
			// The own ingress is written with every service that comes or goes.
			if key.Kind == mesh.ZoneIngresses.Name && (z.ingresses[key.Name] == nil || d.ingresses[key.Name] == nil) {
				everywhere = append(everywhere, key)
			}
		}
		relevant = append(relevant, key)
	}
	switch {
	case d.idle():
		clear(d.meshes)
		clear(d.sick)
		return d.Zone, relevant, nil
	case z.idle():
		return d.Zone, relevant, d.all()
	}
	itself := func(k model.Key) bool { return k.Kind == mesh.Meshes.Name }
	if d.sick[""] != nil && slices.ContainsFunc(relevant, itself) { // it may be the one that could not be read
		if _, err := d.list(); err != nil {
			return nil, nil, err
		}
	}
	if len(everywhere) > 0 {
		for name := range d.meshes {
			changed[name] = append(changed[name], everywhere...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(changed)) {
		if err := d.mesh(name, changed[name]); err != nil {
			return nil, nil, err
		}
	}
	return d.Zone, relevant, nil
}

// ignores reports whether a key is that of a policy, a secret or the like of a mesh that is there
// without. It may be what a mesh lacks that cannot be read.
func (z *Zone) ignores(key model.Key) bool {
	if key.Scope == "" || key.Kind == mesh.Dataplanes.Name || z.sick[key.Scope] != nil {
		return false
	}
	m := z.meshes[key.Scope]
	return m == nil || m.kinds == nil
}

// proxy reads the resource of a proxy again.
func (d *zoneEdit) proxy(k *model.Kind, name string) error {
	res, err := d.reader.Get(k, "", name)
	switch {
	case fault.Is(err, fault.NotFound):
		d.drop(k, name)
		return nil
	case err != nil:
		return fmt.Errorf("refresh %s %s: %w", k.Document.Singular, name, err)
	}
	d.put(res)
	return nil
}

// mesh takes changes of a mesh; without keys, any may have changed. A mesh that cannot be read does
// not keep others from being shown; it is read as a whole when it changes next.
func (d *zoneEdit) mesh(name string, keys []model.Key) error {
	known := d.meshes[name]
	var now *Mesh
	var err error
	switch itself := func(k model.Key) bool { return k.Kind == mesh.Meshes.Name }; {
	case keys == nil || d.sick[name] != nil || known == nil && slices.ContainsFunc(keys, itself):
		now, err = d.load(name)
	case known == nil:
		return nil // a mesh without mutual TLS
	default:
		var relevant []model.Key
		now, relevant, err = known.apply(d.reader, keys)
		switch {
		case err != nil:
		case len(relevant) == 0:
			now = known
		case now.LeavesByEgress() != (now.kinds != nil):
			now, err = d.load(name)
		}
	}
	switch {
	case errors.Is(err, store.ErrUnreadable):
		d.sick[name] = err
		return nil
	case err != nil:
		return err
	}
	delete(d.sick, name)
	if now == nil || now.Spec() == nil || now.Spec().Spec.Authority() == nil {
		delete(d.meshes, name)
	} else {
		d.meshes[name] = now
	}
	return nil
}

// load reads a mesh with mutual TLS; nil if there is none of the name.
func (d *zoneEdit) load(name string) (*Mesh, error) {
	res, err := d.reader.Get(mesh.Meshes, "", name)
	if fault.Is(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // nil is none
	}
	if err != nil {
		return nil, err
	}
	m := entryOf[mesh.Mesh](res).Spec
	if m.Authority() == nil {
		return nil, nil //nolint:nilnil // nil is none
	}
	var kinds map[string]*model.Kind
	if m.LeavesByEgress() {
		kinds = d.kinds
	}
	return loadMesh(name, d.name, kinds, d.reader)
}
