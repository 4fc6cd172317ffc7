package scopes

import (
	"errors"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Conflict is the subject of the error of a read that found two entities where a group may
// have one. The error is Unavailable: it is over once a member gives way.
type Conflict struct {
	Kind *model.Kind
	// Index is the unique index that both share a value of; empty if it is their id.
	Index string
	// Value is what they share; empty for a secret.
	Value string
	// Holders are both, in the order of their scopes.
	Holders [2]model.Key
}

func conflict(k *model.Kind, index, value string, a, b *model.Resource) error {
	c := Conflict{Kind: k, Index: index, Value: value, Holders: [2]model.Key{a.Key(), b.Key()}}
	if c.Holders[1].Scope < c.Holders[0].Scope {
		c.Holders[0], c.Holders[1] = c.Holders[1], c.Holders[0]
	}
	what := "the id " + value
	for i := range k.Unique {
		if ix := &k.Unique[i]; index != "" && ix.Name == index {
			what = "the " + index + " " + value
			if ix.Secret {
				c.Value, what = "", "the same "+index
			}
		}
	}
	return fault.New(fault.Unavailable, "the %s %s of control plane %q and the %s %s of control plane %q both have %s, and a group may have it once",
		k.Name, c.Holders[0].Name, c.Holders[0].Scope, k.Name, c.Holders[1].Name, c.Holders[1].Scope, what).With(c)
}

// ConflictIn returns the conflict that a read failed of, if it was one. Who has wrapped the
// error since may have said something of their own.
func ConflictIn(err error) (Conflict, bool) {
	for f, ok := errors.AsType[*fault.Error](err); ok; f, ok = errors.AsType[*fault.Error](f.Unwrap()) {
		if c, is := f.Subject.(Conflict); is {
			return c, true
		}
	}
	return Conflict{}, false
}
