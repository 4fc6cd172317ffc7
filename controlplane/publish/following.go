package publish

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
)

// following is the view of a scope that a plane follows.
type following[S view.State[S]] struct {
	scope *view.Scope[S]
	sub   *view.Subscription[S]
}

// concerns implements plane.
func (f *following[S]) concerns(key model.Key) bool { return f.scope.Mine(key) }

// unread implements plane.
func (f *following[S]) unread() error { return f.scope.Err() }

// close implements plane.
func (f *following[S]) close() {
	f.sub.Close()
	f.scope.Release()
}

// reach implements plane.
func (f *following[S]) reach(ctx context.Context, revision uint64, over <-chan struct{}) error {
	_, err := f.scope.Await(ctx, revision, over)
	return err
}

// read implements plane.
func (f *following[S]) read(d view.Draft, into *Base) {
	if _, known := into.states[f.scope]; known {
		return
	}
	if state, err := f.scope.Read(d.Reader); err == nil {
		into.states[f.scope] = state
	}
}

// imagineOn returns what a transaction would make of the scope, on the state in base if it is there.
func (f *following[S]) imagineOn(base *Base, d view.Draft) (view.Imagined[S], bool) {
	if state, ok := base.states[f.scope].(S); ok {
		return f.scope.ImagineFrom(state, d), true
	}
	return f.scope.Imagine(d)
}
