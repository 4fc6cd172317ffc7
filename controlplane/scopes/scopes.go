// Package scopes tells what a scope consists of. Most scopes consist of themselves: the
// entities of a control plane are the rows with its name. A group is the union of its
// members. It has no rows of its own, except those that the control plane itself writes.
// Readers of a control plane ask a [Resolver] for a [Source], and need not know whether it is
// a group.
package scopes

import (
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Resolver tells what scopes of control planes consist of. Implementations are safe for
// concurrent use.
type Resolver interface {
	// Resolve returns what a scope consists of in the state of r. Errors come from the store.
	Resolve(r store.Reader, scope string) (Source, error)
	// Shapes reports whether a change of a key may change what a scope consists of. It
	// accepts any key, and does not depend on the state. Such a change must be announced: it
	// has a revision of its own, which separates what was read before it from what was read
	// after it.
	Shapes(scope string, key model.Key) bool
	// Shaped lists the scopes which may consist of something else after a change, as far as
	// the change alone can tell. Whoever writes it sees what they consist of then.
	Shaped(c store.Change) []string
	// Groups lists the scopes that consist of others, among them a given one, in the state of
	// r. Most are in none.
	Groups(r store.Reader, member string) ([]string, error)
	// ReadOnly reports whether nobody may write a key, because its scope consists of others.
	// It is called only with keys of control planes.
	ReadOnly(r store.Reader, key model.Key) (bool, error)
}

// Each is the resolver for which each scope consists of itself.
type Each struct{}

// Resolve implements [Resolver].
func (Each) Resolve(r store.Reader, scope string) (Source, error) { return Of(r, scope), nil }

// Shapes implements [Resolver].
func (Each) Shapes(string, model.Key) bool { return false }

// Shaped implements [Resolver].
func (Each) Shaped(store.Change) []string { return nil }

// Groups implements [Resolver].
func (Each) Groups(store.Reader, string) ([]string, error) { return nil, nil }

// ReadOnly implements [Resolver].
func (Each) ReadOnly(store.Reader, model.Key) (bool, error) { return false, nil }

// OrEach returns r, or [Each] if r is nil.
func OrEach(r Resolver) Resolver {
	if r == nil {
		return Each{}
	}
	return r
}

// Lasting is implemented by resolvers that know scopes which consist of themselves whatever is
// written. Nobody needs to look for changes of those.
type Lasting interface{ Lasts(scope string) bool }

// Lasts reports whether a scope consists of itself for ever, as far as the resolver knows.
func Lasts(r Resolver, scope string) bool {
	if l, ok := r.(Lasting); ok {
		return l.Lasts(scope)
	}
	return false
}

// Lasts implements [Lasting].
func (Each) Lasts(string) bool { return true }

// Register is implemented by resolvers that know which scopes there are. Nothing can be created
// in others.
type Register interface {
	Exists(r store.Reader, scope string) (bool, error)
}
