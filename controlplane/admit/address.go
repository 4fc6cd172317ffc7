package admit

import (
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Address names one resource in the way an API does.
type Address struct {
	Kind  *model.Kind
	Scope string
	// Key is the id, or the value of the schema's key field. Whatever has the
	// form of a UUID is an id.
	Key string
	// Under, if set, demands that the resource refers to another one; what a
	// creation or replacement makes anew does so.
	Under *Relation
	// Of, if set, names the resource as the target of a reference; Key is then
	// not used.
	Of *Relation
	// Twin, if set, is the value of the schema's key field in a replacement; Under is set, too. If Key is
	// nobody's id, the replacement is of the resource with this value, provided that it has the same
	// owner. It keeps its id, because others refer to that.
	Twin string
}

// Relation is a reference from or to the resource at Address.
type Relation struct {
	Address Address
	Ref     string
}

// Missing is the subject of NotFound errors: what was looked for.
type Missing struct {
	Kind *model.Kind
	// Field is "id" or the key field.
	Field, Value string
}

func missing(k *model.Kind, field, value string) error {
	return fault.New(fault.NotFound, "%s not found", k.Name).With(Missing{k, field, value})
}

// Lookup returns the resource at an address. It is NotFound if it, or what it
// is addressed through, does not exist or is not linked in that way.
func Lookup(r store.Reader, a Address) (*model.Resource, error) {
	if a.Of != nil {
		return target(r, a)
	}
	var owner *model.Resource
	within := ""
	if a.Under != nil {
		var err error
		if owner, err = Lookup(r, a.Under.Address); err != nil {
			return nil, err
		}
		if a.Under.Ref == a.Kind.Schema.KeyUnder {
			within = owner.Name
		}
	}
	res, err := find(r, a, within)
	if err != nil || owner == nil {
		return res, err
	}
	if id, ok := refOf(res, a.Under.Ref); !ok || id != owner.Name {
		return nil, missing(a.Kind, model.FieldID, a.Key)
	}
	return res, nil
}

// target follows the reference of the resource that a.Of names.
func target(r store.Reader, a Address) (*model.Resource, error) {
	from, err := Lookup(r, a.Of.Address)
	if err != nil {
		return nil, err
	}
	id, ok := refOf(from, a.Of.Ref)
	if !ok {
		return nil, missing(a.Kind, model.FieldID, "")
	}
	return r.Get(a.Kind, a.Scope, id)
}

// find looks a resource up by id or key field. within is the id that the key
// field is unique within, where it is not unique as it is.
func find(r store.Reader, a Address, within string) (*model.Resource, error) {
	s := a.Kind.Schema
	field := model.FieldID
	var res *model.Resource
	err := missing(a.Kind, field, a.Key)
	switch {
	case model.IsUUID(a.Key):
		res, err = r.Get(a.Kind, a.Scope, strings.ToLower(a.Key))
	case s.KeyUnder != "" && within == "":
	case s.Key != "" && a.Key != "":
		field = s.Key
		value := a.Key
		if s.KeyIndex != nil {
			value = s.KeyIndex(value)
		}
		if s.KeyUnder != "" {
			value = within + " " + value
		}
		res, err = r.Find(a.Kind, a.Scope, field, value)
	}
	if fault.Is(err, fault.NotFound) {
		return nil, missing(a.Kind, field, a.Key)
	}
	return res, err
}

// twin returns the resource that a replacement under a new id is of. It is NotFound if there is none, or
// if it has another owner: then a creation fails, because the value is taken.
func twin(r store.Reader, a Address, owner string) (*model.Resource, error) {
	s, value := a.Kind.Schema, a.Twin
	if s.KeyIndex != nil {
		value = s.KeyIndex(value)
	}
	res, err := r.Find(a.Kind, a.Scope, s.Key, value)
	if err != nil {
		return nil, err
	}
	if id, ok := refOf(res, a.Under.Ref); !ok || id != owner {
		return nil, missing(a.Kind, model.FieldID, a.Key)
	}
	return res, nil
}

// refOf returns the id that a resource refers to by the named reference. What is of
// another scope is nothing that an API of this one has, even if it has one of that id.
func refOf(r *model.Resource, name string) (string, bool) {
	for i := range r.Kind.Refs {
		if ref := &r.Kind.Refs[i]; ref.Name == name {
			to, ok := ref.Key(r)
			return to.Name, ok && to.Scope == r.Scope
		}
	}
	return "", false
}
