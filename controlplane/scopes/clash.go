package scopes

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Clash says that a resource has no part in a group, because another member has one with
// the same id, or with the same value of an index that the members share, and had it first.
// It is an error, so that it can be listed with what else is not in force.
type Clash struct {
	// Left is the resource without a part, Rival the one that keeps it out.
	Left, Rival model.Key
	// Index is the index whose Value both have; empty if it is their id.
	Index, Value string
}

// Shared says what both have.
func (c Clash) Shared() string {
	if c.Index == "" {
		return "the id " + c.Value
	}
	return "the " + c.Index + " " + c.Value
}

// Error implements error. It names both, so that either side can be told.
func (c Clash) Error() string {
	return fmt.Sprintf("the %s %s of control plane %q is left out: the %s %s of control plane %q, which was there first, has %s",
		c.Left.Kind, c.Left.Name, c.Left.Scope, c.Rival.Kind, c.Rival.Name, c.Rival.Scope, c.Shared())
}

// Before orders resources of one kind that clash by a value of an index, or by their id if
// index is empty: the one that had it first counts. The store alone says which that is, and
// nothing that a writer says of a row. Rows that have it since they were made are ordered as
// they were made. A row takes a value later only in a commit that is announced, for nothing
// that members may clash by changes in silence. So what was made up to that revision had it
// before, and what one commit takes several times is that of the row that is older.
func Before(a, b *model.Resource, index string) bool {
	return cmp.Or(cmp.Compare(a.Since(index), b.Since(index)), cmp.Compare(later(a, index), later(b, index)), cmp.Compare(a.Order, b.Order)) < 0
}

// later is 1 for a row that took its value of an index after it was made, else 0.
func later(res *model.Resource, index string) int {
	if _, took := res.Taken[index]; took {
		return 1
	}
	return 0
}

// shared yields what a resource may clash by: its id, and its values of some unique
// indexes.
func shared(res *model.Resource, indexes []string, yield func(index, value string)) {
	yield("", res.Name)
	for i := range res.Kind.Unique {
		ix := &res.Kind.Unique[i]
		for _, name := range indexes {
			if value, ok := ix.Value(res.Spec); ok && ix.Name == name {
				yield(name, value)
			}
		}
	}
}

// Clashes compares resources of one kind with each other, by their ids and by the values of
// some indexes, none of which is secret. It returns those that are left out: each of which
// another scope had the same id or value first. Whether the rival is left out itself does
// not matter, so that a change concerns those only that share something with what was
// changed. If there are several, it is named who had the id first, then who had the value of
// the first index.
func Clashes(list []*model.Resource, indexes ...string) map[model.Key]Clash {
	type place struct{ index, value string }
	first := map[place]*model.Resource{}
	for _, res := range list {
		shared(res, indexes, func(index, value string) {
			at := place{index, value}
			if old := first[at]; old == nil || Before(res, old, index) {
				first[at] = res
			}
		})
	}
	var out map[model.Key]Clash
	for _, res := range list {
		shared(res, indexes, func(index, value string) {
			old := first[place{index, value}]
			if _, left := out[res.Key()]; left || old == res {
				return
			}
			if out == nil {
				out = map[model.Key]Clash{}
			}
			out[res.Key()] = Clash{Left: res.Key(), Rival: old.Key(), Index: index, Value: value}
		})
	}
	return out
}

// Rivals reads what other members have with the id of a resource, or with one of its values
// of some indexes. clash is what [Clashes] would say of it, nil if it is not left out.
func (s Source) Rivals(res *model.Resource, indexes ...string) (rivals []*model.Resource, clash *Clash, err error) {
	shared(res, indexes, func(index, value string) {
		first, settled := res, clash != nil
		for _, scope := range s.group {
			if scope == res.Scope || err != nil {
				continue
			}
			var rival *model.Resource
			if rival, err = s.holder(res.Kind, scope, index, value); rival == nil {
				continue
			}
			rivals = append(rivals, rival)
			if !settled && Before(rival, first, index) {
				first, clash = rival, &Clash{Left: res.Key(), Rival: rival.Key(), Index: index, Value: value}
			}
		}
	})
	return rivals, clash, err
}

// holder reads what one member has with an id, if index is empty, or with a value of an
// index; nil if it has nothing.
func (s Source) holder(k *model.Kind, scope, index, value string) (res *model.Resource, err error) {
	if index == "" {
		res, err = s.reader.Get(k, scope, value)
	} else {
		res, err = s.reader.Find(k, scope, index, value)
	}
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return res, err
}

// Counts fails with a [Clash] if another member had something in common with a resource first,
// by some of its unique indexes; an empty one stands for its id. The error is Unavailable: it
// is over once the other gives way. It names what both have, so none of the indexes may be
// secret.
func (s Source) Counts(res *model.Resource, by ...string) error {
	return s.others(res, by, func(index, value string, other *model.Resource) error {
		if !Before(other, res, index) {
			return nil
		}
		c := Clash{Left: res.Key(), Rival: other.Key(), Index: index, Value: value}
		return fault.New(fault.Unavailable, "%s", c.Error()).With(c)
	})
}

// others yields what other members have in common with a resource.
func (s Source) others(res *model.Resource, by []string, yield func(index, value string, other *model.Resource) error) error {
	for _, index := range by {
		value, some := ValueOf(res, index)
		for _, scope := range s.group {
			if !some || scope == res.Scope {
				continue
			}
			other, err := s.holder(res.Kind, scope, index, value)
			if other != nil {
				err = yield(index, value, other)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// ClashIn returns the clash that a read failed of, if it was one. Who has wrapped the error
// since may have said something of their own.
func ClashIn(err error) (Clash, bool) {
	for f, ok := errors.AsType[*fault.Error](err); ok; f, ok = errors.AsType[*fault.Error](f.Unwrap()) {
		if c, is := f.Subject.(Clash); is {
			return c, true
		}
	}
	return Clash{}, false
}

// Fellows reads the members of all groups that a scope is in, each once: whoever shares
// something with it in some group is one of them. It is empty for one that is in no group.
func Fellows(r store.Reader, by Resolver, scope string) (Source, error) {
	groups, err := by.Groups(r, scope)
	if err != nil {
		return Source{}, err
	}
	var all []string // of most it stays empty
	for _, group := range groups {
		src, err := by.Resolve(r, group)
		if err != nil {
			return Source{}, err
		}
		all = append(all, src.Scopes()...)
	}
	return Union(r, all...), nil
}

// ValueOf is the value of a resource in an index, or its id if index is empty.
func ValueOf(res *model.Resource, index string) (value string, some bool) {
	if index == "" {
		return res.Name, true
	}
	for i := range res.Kind.Unique {
		if ix := &res.Kind.Unique[i]; ix.Name == index {
			return ix.Value(res.Spec)
		}
	}
	return "", false
}

// In reads one member alone. What a member's resources name is that member's.
func (s Source) In(scope string) Source { return Of(s.reader, scope) }

// All lists all resources of all members, also those that clash.
func (s Source) All(k *model.Kind) (all []*model.Resource, err error) {
	for _, scope := range s.Scopes() {
		list, err := s.In(scope).List(k, store.Query{})
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}
