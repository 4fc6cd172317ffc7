// Package scopes says what a scope consists of. Most scopes are themselves: the entities
// of a control plane are the rows of that name. A group is the union of its members, and
// has no rows of its own that anybody but the control plane writes. Whoever reads a
// control plane asks a [Resolver] for a [Source], and need not know which it is.
package scopes

import (
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Resolver knows what scopes of control planes consist of. Implementations are safe for
// concurrent use.
type Resolver interface {
	// Resolve returns what a scope consists of in the state of r. An error is one of the
	// store.
	Resolve(r store.Reader, scope string) (Source, error)
	// Shapes reports whether a change of a key may change what a scope consists of. It
	// may be asked of any key, and knows nothing of the state.
	Shapes(scope string, key model.Key) bool
	// Shaped lists the scopes which may consist of something else after a change, as far as
	// the change alone can tell. Whoever writes it sees what they consist of then.
	Shaped(c store.Change) []string
	// ReadOnly reports whether nobody may write a key, because its scope is made of others.
	// It is asked about keys of control planes only.
	ReadOnly(r store.Reader, key model.Key) (bool, error)
}

// Each is the resolver for which each scope is itself.
type Each struct{}

// Resolve implements [Resolver].
func (Each) Resolve(r store.Reader, scope string) (Source, error) { return Of(r, scope), nil }

// Shapes implements [Resolver].
func (Each) Shapes(string, model.Key) bool { return false }

// Shaped implements [Resolver].
func (Each) Shaped(store.Change) []string { return nil }

// ReadOnly implements [Resolver].
func (Each) ReadOnly(store.Reader, model.Key) (bool, error) { return false, nil }

// OrEach is r, or [Each] if that is nil.
func OrEach(r Resolver) Resolver {
	if r == nil {
		return Each{}
	}
	return r
}
