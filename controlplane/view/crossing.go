package view

import (
	"cmp"
	"iter"
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// IsMutual reports whether proxies of the mesh prove to each other who they are.
func (m *Mesh) IsMutual() bool { return m.spec != nil && m.spec.Spec.Authority() != nil }

// Crossings yields what meshes let others know, its own among them, in no particular order.
func (m *Mesh) Crossings() iter.Seq2[string, *mesh.Crossing] {
	return func(yield func(string, *mesh.Crossing) bool) {
		for name, spec := range m.located[mesh.Crossings.Name].specs.all() {
			if c, ok := spec.(*mesh.Crossing); ok && !yield(name, c) {
				return
			}
		}
	}
}

// CrossHosts returns the host names of gateways that the proxies of this mesh may call as those of
// other meshes do: of its own gateways and of those of others, each in order. Without mutual TLS there
// are none, because those gateways would refuse everybody.
func (m *Mesh) CrossHosts() (own, others []mesh.Name) {
	if !m.IsMutual() {
		return nil, nil
	}
	for name, c := range m.Crossings() {
		if name == m.name {
			own = append(own, c.CrossHosts()...)
		} else {
			others = append(others, c.Offered()...)
		}
	}
	for _, names := range [...][]mesh.Name{own, others} {
		slices.SortFunc(names, func(a, b mesh.Name) int {
			return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Tags.String(), b.Tags.String()))
		})
	}
	return own, others
}
