package view

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Hosting is a spec of a kind that is [Locating] and that callers also know by host names of its
// own, as a service outside the mesh has.
type Hosting interface {
	// Hosts returns names in the form of [mesh.IsHost], with ports and tags that nobody changes.
	Hosts() []mesh.Name
}

// VirtualName is a name that VirtualOutbounds give to inbounds.
type VirtualName struct {
	mesh.Name
	// By is the name of the VirtualOutbound.
	By string
}

// naming holds what VirtualOutbounds call the inbounds of a mesh. It is immutable.
type naming struct {
	rules table[*namingRule]
	// names has each distinct name once, and counts how many inbounds have it. names keeps its
	// identity while no name comes or goes.
	names  table[*VirtualName]
	counts table[int]
}

type namingRule struct {
	name  string
	namer *mesh.Namer
}

// namingEdit is the next naming while it is being made.
type namingEdit struct {
	rules  *edit[*namingRule]
	names  *edit[*VirtualName]
	counts *edit[int]
}

func (n *naming) edit() *namingEdit {
	return &namingEdit{editOf(n.rules), editOf(n.names), editOf(n.counts)}
}

func (e *namingEdit) freeze() naming { return naming{e.rules.table, e.names.table, e.counts.table} }

// rule replaces a VirtualOutbound in a mesh with these tag sets; nil is one that was deleted.
func (e *namingEdit) rule(name string, now *namingRule, sets iter.Seq[mesh.Tags]) {
	if was, ok := e.rules.get(name); ok {
		for tags := range sets {
			e.count(was, tags, -1)
		}
		e.rules.drop(name)
	}
	if now == nil {
		return
	}
	e.rules.put(name, now)
	for tags := range sets {
		e.count(now, tags, 1)
	}
}

// inbound counts an inbound with these tags n times more, for each VirtualOutbound.
func (e *namingEdit) inbound(tags mesh.Tags, n int) {
	for _, r := range e.rules.all() {
		e.count(r, tags, n)
	}
}

func (e *namingEdit) count(r *namingRule, tags mesh.Tags, n int) {
	name, ok := r.namer.Name(tags)
	if !ok {
		return
	}
	key := r.name + "\x00" + name.Host + "\x00" + strconv.FormatUint(uint64(name.Port), 10) + "\x00" + name.Tags.String()
	was, _ := e.counts.get(key)
	switch now := was + n; {
	case now <= 0:
		e.counts.drop(key)
		e.names.drop(key)
	default:
		e.counts.put(key, now)
		if was == 0 {
			e.names.put(key, &VirtualName{name, r.name})
		}
	}
}

// VirtualNames returns the distinct names that VirtualOutbounds give, ordered by the names of the
// VirtualOutbounds, then by host, port and tags.
func (m *Mesh) VirtualNames() []*VirtualName {
	out := make([]*VirtualName, 0, m.naming.names.size)
	for _, n := range m.naming.names.all() {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b *VirtualName) int {
		return cmp.Or(cmp.Compare(a.By, b.By), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Tags.String(), b.Tags.String()))
	})
	return out
}

// Hosts returns the host names that resources bring with them, in no particular order.
func (m *Mesh) Hosts() (out []mesh.Name) {
	for _, x := range m.located {
		for _, spec := range x.specs.all() {
			if h, ok := spec.(Hosting); ok {
				out = append(out, h.Hosts()...)
			}
		}
	}
	return out
}

// Brings reports whether a resource brings host names with it.
func (m *Mesh) Brings(k *model.Kind, name string) bool {
	spec, _ := m.located[k.Name].specs.get(name)
	if c, ok := spec.(*mesh.Crossing); ok {
		return len(c.CrossHosts()) > 0
	}
	h, ok := spec.(Hosting)
	return ok && len(h.Hosts()) > 0
}

// Address returns the address that is stored for a host name.
func (m *Mesh) Address(host string) (netip.Addr, bool) {
	a, ok := m.addresses.get(host)
	if !ok {
		return netip.Addr{}, false
	}
	ip, err := netip.ParseAddr(a.Spec.Address)
	return ip, err == nil && mesh.Virtual.Contains(ip)
}

// Holders returns what is stored as the holders of a host name, by port. Nobody changes it.
func (m *Mesh) Holders(host string) map[uint32]mesh.Holder {
	a, ok := m.addresses.get(host)
	if !ok {
		return nil
	}
	return a.Spec.Holders
}

// Addressed returns how many addresses are stored. A mesh whose names never had any has none.
func (m *Mesh) Addressed() int { return m.addresses.size }

// Addresses yields the stored addresses by host name, in no particular order.
func (m *Mesh) Addresses() iter.Seq2[string, *Entry[mesh.Address]] { return m.addresses.all() }

// SameNames reports whether two states of a mesh have the same names of VirtualOutbounds and the
// same stored addresses. It may miss that.
func (m *Mesh) SameNames(o *Mesh) bool {
	return m.naming.names.parts == o.naming.names.parts && m.addresses.parts == o.addresses.parts
}

// SameHosts reports whether two states of a mesh have the same host names and stored addresses. It
// may miss that.
func (m *Mesh) SameHosts(o *Mesh) bool {
	return m.SameNames(o) && m.IsMutual() == o.IsMutual() && m.inbounds.parts == o.inbounds.parts &&
		maps.EqualFunc(m.located, o.located, func(a, b locatedIndex) bool { return a.specs.parts == b.specs.parts })
}

// tagSetsOf yields the tags of what can be reached at a dataplane.
func tagSetsOf(d *Dataplane) iter.Seq[mesh.Tags] {
	return func(yield func(mesh.Tags) bool) {
		for in := range inboundsOf(d) {
			if in.State != mesh.StateIgnored && !yield(in.Tags) {
				return
			}
		}
	}
}

// tagSets yields the tags of everything that can be reached in a mesh.
func (m *Mesh) tagSets() iter.Seq[mesh.Tags] {
	return func(yield func(mesh.Tags) bool) {
		for _, d := range m.dataplanes.all() {
			for tags := range tagSetsOf(d) {
				if !yield(tags) {
					return
				}
			}
		}
		for kind, x := range m.located {
			if kind == mesh.Crossings.Name {
				continue
			}
			for _, spec := range x.specs.all() {
				for _, e := range spec.Locates() {
					if e.Tags.Service() != "" && !yield(e.Tags) {
						return
					}
				}
			}
		}
	}
}

// name takes the changes of a batch into the naming: first the VirtualOutbounds, as of what there
// was before, then what can be reached.
func (d *meshDraft) name() naming {
	if len(d.rules) == 0 && d.from.naming.rules.size == 0 {
		return d.from.naming
	}
	e := d.from.naming.edit()
	for name, now := range d.rules {
		e.rule(name, now, d.from.tagSets())
	}
	for name, now := range d.dataplanes {
		was, _ := d.from.dataplanes.get(name)
		// What stays is counted first, so that no name goes and comes again.
		for tags := range tagSetsOf(now) {
			e.inbound(tags, 1)
		}
		for tags := range tagSetsOf(was) {
			e.inbound(tags, -1)
		}
	}
	for kind, changed := range d.located {
		if kind == mesh.Crossings.Name {
			continue // rules are for what the mesh has itself
		}
		for name, now := range changed {
			was, _ := d.from.located[kind].specs.get(name)
			e.located(now, 1)
			e.located(was, -1)
		}
	}
	return e.freeze()
}

func (e *namingEdit) located(spec Locating, n int) {
	if spec == nil {
		return
	}
	for _, x := range spec.Locates() {
		if x.Tags.Service() != "" {
			e.inbound(x.Tags, n)
		}
	}
}
