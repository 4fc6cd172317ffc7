package view

import (
	"iter"
	"maps"
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Destination is a service as those see it who call it, whatever it is that makes it
// one. It is immutable, and the same pointer as long as nothing of it differs.
type Destination interface {
	// Members are the endpoints, ordered by address and port.
	Members() []Endpoint
	// ByName reports whether the address of some endpoint is a name.
	ByName() bool
}

// Locating is a spec that says itself where services are, each endpoint under the
// service of its tags. The kinds of a mesh whose specs do so are no policies.
type Locating interface {
	// Locates returns endpoints that nobody changes. Several resources may have some of
	// one service.
	Locates() []Endpoint
}

// Resolving is a spec that refers to secrets of its mesh. A view holds what it resolves to, and
// not the spec, which may hold keys.
type Resolving interface {
	Locating
	// SecretNames are the secrets that the spec refers to.
	SecretNames() []string
	// Resolved returns a [Referring] for the resource of a name. An error means that nothing
	// can be said now.
	Resolved(r model.Getter, mesh, name string) (any, error)
}

// Referring is what a [Resolving] resolves to. It holds no private key.
type Referring interface {
	Locating
	// SecretNames are those of the [Resolving].
	SecretNames() []string
}

// Members implements [Destination].
func (s *MeshService) Members() []Endpoint { return s.Endpoints }

// ByName implements [Destination].
func (s *MeshService) ByName() bool { return s.Named }

// Located is a service of which resources of one kind say where it is. It implements
// [Destination]; whatever a spec says, a changed one makes another Located.
type Located struct {
	// Specs are those that name the service, ordered by the names of their resources.
	Specs     []Locating
	names     []string
	endpoints []Endpoint
	named     bool
}

// Members implements [Destination].
func (l *Located) Members() []Endpoint { return l.endpoints }

// ByName implements [Destination].
func (l *Located) ByName() bool { return l.named }

// Located returns a service that resources of a kind locate; nil for a service that
// none does.
func (m *Mesh) Located(k *model.Kind, service string) *Located {
	l, _ := m.located[k.Name].services.get(service)
	return l
}

// LocatedBy yields the services that resources of a kind locate, in no particular order.
func (m *Mesh) LocatedBy(k *model.Kind) iter.Seq2[string, *Located] {
	return m.located[k.Name].services.all()
}

// Has reports whether a service is there for callers: some inbound serves it, or some
// resource locates it.
func (m *Mesh) Has(service string) bool { return m.Service(service) != nil || m.locatedBy(service, "") }

// locatedBy reports whether resources of a kind locate a service of which the name comes
// before another one; any kind does before the empty name.
func (m *Mesh) locatedBy(service, before string) bool {
	for kind, x := range m.located {
		if before != "" && kind >= before {
			continue
		}
		if _, ok := x.services.get(service); ok {
			return true
		}
	}
	return false
}

// Destinations yields the names of all services of which [Mesh.Has] is true, each once,
// in no particular order. Services of other meshes are not among them.
func (m *Mesh) Destinations() iter.Seq[string] {
	return func(yield func(string) bool) {
		for service := range m.services.all() {
			if !yield(service) {
				return
			}
		}
		for kind, x := range m.located {
			if kind == mesh.Crossings.Name {
				continue
			}
			for service := range x.services.all() {
				if m.Service(service) == nil && !m.locatedBy(service, kind) && !yield(service) {
					return
				}
			}
		}
	}
}

// Beyond yields the services that resources locate and no inbound serves, in no particular
// order. One that resources of several kinds locate is there for each of these. Services of other
// meshes are not among them.
func (m *Mesh) Beyond() iter.Seq2[string, *Located] {
	return func(yield func(string, *Located) bool) {
		for kind, x := range m.located {
			if kind == mesh.Crossings.Name {
				continue
			}
			for service, l := range x.services.all() {
				if m.Service(service) == nil && !yield(service, l) {
					return
				}
			}
		}
	}
}

// Locates yields the services that a resource locates, each once; none for a resource
// that does not exist.
func (m *Mesh) Locates(k *model.Kind, name string) iter.Seq[string] {
	spec, _ := m.located[k.Name].specs.get(name)
	return maps.Keys(servicesIn(spec))
}

// servicesIn are the endpoints of a spec by their services.
func servicesIn(spec Locating) map[string][]Endpoint {
	out := map[string][]Endpoint{}
	if spec == nil {
		return out
	}
	for _, e := range spec.Locates() {
		if s := e.Tags.Service(); s != "" {
			out[s] = append(out[s], e)
		}
	}
	return out
}

// locatedIndex holds the resources of one kind by name, and what they locate by service.
type locatedIndex struct {
	specs    table[Locating]
	services table[*Located]
}

// with returns the index after a change of some resources; nil is one that was deleted.
// It costs what the services that they name have.
func (x locatedIndex) with(changed map[string]Locating) locatedIndex {
	specs, services, touched := editOf(x.specs), editOf(x.services), map[string]map[string]struct{}{}
	for name, now := range changed {
		was, _ := x.specs.get(name)
		for _, spec := range []Locating{was, now} {
			for service := range servicesIn(spec) {
				if touched[service] == nil {
					touched[service] = map[string]struct{}{}
				}
				touched[service][name] = struct{}{}
			}
		}
		if now == nil {
			specs.drop(name)
		} else {
			specs.put(name, now)
		}
	}
	for service, names := range touched {
		if old, _ := x.services.get(service); old != nil {
			for _, name := range old.names {
				names[name] = struct{}{}
			}
		}
		if l := locate(service, slices.Sorted(maps.Keys(names)), specs.table); l != nil {
			services.put(service, l)
		} else {
			services.drop(service)
		}
	}
	return locatedIndex{specs.table, services.table}
}

// locate gathers what resources say of a service; nil if none says anything.
func locate(service string, names []string, specs table[Locating]) *Located {
	l := &Located{}
	for _, name := range names {
		spec, _ := specs.get(name)
		endpoints := servicesIn(spec)[service]
		if len(endpoints) == 0 {
			continue
		}
		l.names, l.Specs = append(l.names, name), append(l.Specs, spec)
		l.endpoints = append(l.endpoints, endpoints...)
	}
	if len(l.names) == 0 {
		return nil
	}
	slices.SortStableFunc(l.endpoints, compareEndpoints)
	l.named = slices.ContainsFunc(l.endpoints, func(e Endpoint) bool { return !e.IsIP() })
	return l
}
