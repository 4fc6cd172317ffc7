// Package resource holds frozen Envoy configuration: named bytes with versions
// made from their content. Everything here is immutable and shared freely.
package resource

import (
	"cmp"
	"encoding/hex"
	"slices"

	"github.com/zeebo/xxh3"
)

// TypeURL is the type of an xDS resource.
type TypeURL string

// The types that are served, in the order in which additions are sent.
const (
	Cluster  TypeURL = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	Endpoint TypeURL = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	Listener TypeURL = "type.googleapis.com/envoy.config.listener.v3.Listener"
	Route    TypeURL = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	Secret   TypeURL = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
)

// Types lists the served types in sending order.
var Types = []TypeURL{Cluster, Endpoint, Listener, Route, Secret}

// Resource is one frozen resource. Two with equal versions have equal bytes.
type Resource struct {
	Type TypeURL
	Name string
	// Body is the marshalled proto message, the value of the Any on the wire.
	Body []byte
	// Version is the xxh3-128 of Body in hex: equal on every replica.
	Version string
}

// New freezes bytes. The caller gives them away.
func New(t TypeURL, name string, body []byte) *Resource {
	h := xxh3.Hash128(body).Bytes()
	return &Resource{Type: t, Name: name, Body: body, Version: hex.EncodeToString(h[:])}
}

// Set is what one node holds: resources by type and name. The zero value and
// nil are empty.
type Set struct {
	byType map[TypeURL]map[string]*Resource
	// secrets are names that the node may subscribe to; their bytes are made on
	// subscription and are not part of the set.
	secrets map[string]struct{}
}

// NewSet freezes resources and the names of secrets that go with them. A name
// that occurs twice in a type keeps its last resource.
func NewSet(rs []*Resource, secrets []string) *Set {
	s := &Set{byType: map[TypeURL]map[string]*Resource{}, secrets: map[string]struct{}{}}
	for _, r := range rs {
		m := s.byType[r.Type]
		if m == nil {
			m = map[string]*Resource{}
			s.byType[r.Type] = m
		}
		m[r.Name] = r
	}
	for _, n := range secrets {
		s.secrets[n] = struct{}{}
	}
	return s
}

// Get returns a resource, or nil.
func (s *Set) Get(t TypeURL, name string) *Resource {
	if s == nil {
		return nil
	}
	return s.byType[t][name]
}

// All returns the resources of a type in the order of their names.
func (s *Set) All(t TypeURL) []*Resource {
	if s == nil {
		return nil
	}
	out := make([]*Resource, 0, len(s.byType[t]))
	for _, r := range s.byType[t] {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *Resource) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Len returns the number of resources of a type.
func (s *Set) Len(t TypeURL) int {
	if s == nil {
		return 0
	}
	return len(s.byType[t])
}

// AllowsSecret reports whether the node may subscribe to a secret.
func (s *Set) AllowsSecret(name string) bool {
	if s == nil {
		return false
	}
	_, ok := s.secrets[name]
	return ok
}

// Secrets returns the names of the secrets in order.
func (s *Set) Secrets() []string {
	if s == nil {
		return nil
	}
	out := make([]string, 0, len(s.secrets))
	for n := range s.secrets {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// Diff is what turns one set into another, for one type.
type Diff struct {
	// Changed are new resources and those with other bytes, ordered by name.
	Changed []*Resource
	// Removed are names that are gone, ordered.
	Removed []string
}

// Empty reports whether nothing differs.
func (d Diff) Empty() bool { return len(d.Changed) == 0 && len(d.Removed) == 0 }

// Diff compares with an older set.
func (s *Set) Diff(old *Set, t TypeURL) Diff {
	var d Diff
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
