package scopes

import (
	"cmp"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Members are the scopes that a scope consists of. It is immutable; the zero value is a
// scope without a name.
type Members struct {
	// own is the scope of one that is itself.
	own string
	// group lists the members in order; it counts only if union is set, and may be empty.
	group []string
	union bool
}

// Has reports whether the rows of a scope are among those of the members.
func (m Members) Has(scope string) bool {
	if !m.union {
		return m.own == scope
	}
	_, found := slices.BinarySearch(m.group, scope)
	return found
}

// Scopes lists them in order.
func (m Members) Scopes() []string {
	if !m.union {
		return []string{m.own}
	}
	return slices.Clone(m.group)
}

// IsUnion reports whether they are a group, in which entities may clash.
func (m Members) IsUnion() bool { return m.union }

// Equal reports whether both are the same scopes.
func (m Members) Equal(o Members) bool {
	return m.own == o.own && m.union == o.union && slices.Equal(m.group, o.group)
}

// Over reads the members in the state of r.
func (m Members) Over(r store.Reader) Source { return Source{m, r} }

// Source reads the entities of a scope in one state, as a [store.Reader] does, but without
// being told where they are. Resources keep the scope of their rows. Of what two members hold
// with the same id, or with the same value of a unique index, Get and Find return that of the
// one that had it first, which is what gateways hold. List and [Source.All] return both, and
// [Source.Counts] says of one resource whether it has a part in the group. It is a value, so
// that reading a scope that is itself costs nothing more than the reader.
type Source struct {
	Members
	reader store.Reader
}

// Of reads one scope that is itself.
func Of(r store.Reader, scope string) Source { return Source{Members{own: scope}, r} }

// Union reads a group of members.
func Union(r store.Reader, members ...string) Source {
	return Source{Members{group: slices.Compact(slices.Sorted(slices.Values(members))), union: true}, r}
}

// Revision is that of the reader.
func (s Source) Revision() uint64 { return s.reader.Revision() }

// Get returns the named resource.
func (s Source) Get(k *model.Kind, name string) (*model.Resource, error) {
	if !s.union {
		return s.reader.Get(k, s.own, name)
	}
	return s.first(k, "", name)
}

// Find returns the resource that holds a unique value.
func (s Source) Find(k *model.Kind, index, value string) (*model.Resource, error) {
	if !s.union {
		return s.reader.Find(k, s.own, index, value)
	}
	return s.first(k, index, value)
}

// first asks all members, and returns what was there first.
func (s Source) first(k *model.Kind, index, value string) (first *model.Resource, err error) {
	for _, scope := range s.group {
		res, err := s.holder(k, scope, index, value)
		if err != nil {
			return nil, err
		}
		if res != nil && (first == nil || Before(res, first, index)) {
			first = res
		}
	}
	if first == nil {
		return nil, fault.New(fault.NotFound, "no member has this %s", k.Name)
	}
	return first, nil
}

// List returns a page, also of what clashes. The scope of the query is not looked at. What is listed by a
// reference that may name another scope refers to a row of any member, unless the query
// says of which.
func (s Source) List(k *model.Kind, q store.Query) ([]*model.Resource, error) {
	if !s.union {
		q.Scope = s.own
		return s.reader.List(k, q)
	}
	skip, limit := q.Skip, q.Limit
	if q.Skip = 0; limit > 0 {
		q.Limit = skip + limit
	}
	var all []*model.Resource
	for _, of := range s.targets(k, q) {
		q.Of = of
		for _, scope := range s.group {
			q.Scope = scope
			list, err := s.reader.List(k, q)
			if err != nil {
				return nil, err
			}
			all = append(all, list...)
		}
	}
	slices.SortStableFunc(all, func(a, b *model.Resource) int { return cmp.Compare(a.Name, b.Name) })
	all = all[min(skip, len(all)):]
	if limit > 0 {
		all = all[:min(limit, len(all))]
	}
	return all, nil
}

// targets are the scopes of what a query lists by.
func (s Source) targets(k *model.Kind, q store.Query) []string {
	for i := range k.Refs {
		if ref := &k.Refs[i]; q.Of == "" && ref.In != nil && ref.Name == q.Index {
			return s.group
		}
	}
	return []string{q.Of}
}
