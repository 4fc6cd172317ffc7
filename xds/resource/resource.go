// Package resource holds immutable Envoy configuration: named bytes, with versions that are
// made from their content. Everything here is immutable and may be shared freely.
package resource

import (
	"cmp"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/zeebo/xxh3"
)

// TypeURL is the type of an xDS resource.
type TypeURL string

// These are the served types, in the order in which additions are sent.
const (
	Cluster  TypeURL = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	Endpoint TypeURL = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	Listener TypeURL = "type.googleapis.com/envoy.config.listener.v3.Listener"
	Route    TypeURL = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	Secret   TypeURL = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
)

// Types lists the served types in sending order.
var Types = [...]TypeURL{Cluster, Endpoint, Listener, Route, Secret}

// index returns the index of a type in [Types], or -1 for a type that is not served.
func (t TypeURL) index() int { return slices.Index(Types[:], t) }

// Resource is one immutable resource. Two resources with equal versions have equal bytes.
type Resource struct {
	Type TypeURL
	Name string
	// Body is the marshalled proto message, the value of the Any on the wire.
	Body []byte
	// Version is the xxh3-128 of Body in hex: equal on every replica.
	Version string
	// Routes are the names of the route tables that a listener makes a proxy ask for, ordered.
	// They follow from Body.
	Routes []string
	// Plugins are the ids of the plugin instances whose chains a route table of a sidecar
	// contains. They follow from Body, but the maker of the table sets them.
	Plugins []string
	// Delta is the resource with its name and version, encoded as a field of a
	// DeltaDiscoveryResponse. Packed is the Any in it. Body is a part of both.
	Delta, Packed []byte
}

// New makes a resource. The caller must not use the bytes afterwards.
func New(t TypeURL, name string, body []byte) *Resource {
	h := xxh3.Hash128(body).Bytes()
	return Received(t, name, hex.EncodeToString(h[:]), body)
}

// Received makes a resource that comes from elsewhere, with the version that it has there. The
// caller must not use the bytes afterwards.
func Received(t TypeURL, name, version string, body []byte) *Resource {
	r := &Resource{Type: t, Name: name, Body: body, Version: version}
	if t == Listener {
		r.Routes = routesOf(body)
	}
	r.encode()
	return r
}

// Set is the configuration of one node: a table per type, and the secrets that the node may
// ask for. The zero value and nil are empty.
type Set struct {
	tables [len(Types)]*Table
	// secrets are the names that the node may subscribe to, with the generation of each. Their
	// bytes are made on subscription and are usually not part of the set.
	secrets map[string]string
}

// NewSet makes a set of resources and the secrets that go with them. If a name occurs twice in
// a type, the last resource is kept. The caller must not use the map afterwards.
func NewSet(rs []*Resource, secrets map[string]string) *Set {
	var parts [len(Types)][]*Resource
	for _, r := range rs {
		if i := r.Type.index(); i >= 0 {
			parts[i] = append(parts[i], r)
		}
	}
	s := &Set{secrets: secrets}
	for i, part := range parts {
		s.tables[i] = TableOf(part)
	}
	return s
}

// Assemble makes a set of tables that other sets may share. A type that is not named is empty.
// The caller must not use the maps afterwards.
func Assemble(tables map[TypeURL]*Table, secrets map[string]string) *Set {
	s := &Set{secrets: secrets}
	for t, table := range tables {
		if i := t.index(); i >= 0 {
			s.tables[i] = table
		}
	}
	return s
}

// Table returns the resources of a type. Equal pointers mean equal content, so shared tables
// are compared at no cost.
func (s *Set) Table(t TypeURL) *Table {
	if i := t.index(); s != nil && i >= 0 {
		return s.tables[i]
	}
	return nil
}

// Get returns a resource, or nil.
func (s *Set) Get(t TypeURL, name string) *Resource { return s.Table(t).Get(name) }

// All returns the resources of a type, ordered by name.
func (s *Set) All(t TypeURL) []*Resource {
	out := slices.AppendSeq(make([]*Resource, 0, s.Len(t)), s.Each(t))
	slices.SortFunc(out, func(a, b *Resource) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// HasPlugin reports whether a route table contains a chain with a plugin instance.
func (s *Set) HasPlugin(id string) bool { return s.Table(Route).hasPlugin(id) }

// HasPlugins reports whether a route table contains a chain with any plugin instance.
func (s *Set) HasPlugins() bool { return s.Table(Route).hasPlugins() }

// Len returns the number of resources of a type.
func (s *Set) Len(t TypeURL) int { return s.Table(t).Len() }

// AllowsSecret reports whether the node may subscribe to a secret.
func (s *Set) AllowsSecret(name string) bool {
	_, ok := s.Generation(name)
	return ok
}

// Generation returns the generation of a secret that the node may subscribe to. A secret that
// was made for another generation must be made again.
func (s *Set) Generation(name string) (generation string, ok bool) {
	if s == nil {
		return "", false
	}
	generation, ok = s.secrets[name]
	return generation, ok
}

// Secrets returns the names of the secrets in order.
func (s *Set) Secrets() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.secrets))
}

// Diff is the difference between two sets, for one type.
type Diff struct {
	// Changed are new resources and those with other bytes, ordered by name.
	Changed []*Resource
	// Removed are names that are gone, ordered.
	Removed []string
}

// Empty reports whether nothing differs.
func (d Diff) Empty() bool { return len(d.Changed) == 0 && len(d.Removed) == 0 }

// Diff compares the set with an older one.
func (s *Set) Diff(old *Set, t TypeURL) Diff {
	var d Diff
	if s.Table(t) == old.Table(t) {
		return d
	}
	for _, r := range s.All(t) {
		if o := old.Get(t, r.Name); o == nil || o.Version != r.Version {
			d.Changed = append(d.Changed, r)
		}
	}
	for _, o := range old.All(t) {
		if s.Get(t, o.Name) == nil {
			d.Removed = append(d.Removed, o.Name)
		}
	}
	return d
}
