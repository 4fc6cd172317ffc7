package storetest

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// ErrDisk is the cause of the failures of [Full]. No caller may see it.
var ErrDisk = errors.New("database or disk is full (13)")

// Full is a store whose disk may be full. While it is, every transaction fails after its
// function has run.
type Full struct {
	store.Store
	IsFull atomic.Bool
}

var errRolledBack = errors.New("rolled back")

// Update implements [store.Store].
func (f *Full) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	if !f.IsFull.Load() {
		return f.Store.Update(ctx, class, fn)
	}
	var refused error
	_, err := f.Store.Update(ctx, class, func(tx store.Tx) error {
		if refused = fn(tx); refused != nil {
			return refused
		}
		return errRolledBack
	})
	if errors.Is(err, errRolledBack) {
		err = store.DiskFull.Fault(ErrDisk)
	}
	return store.Commit{}, err
}
