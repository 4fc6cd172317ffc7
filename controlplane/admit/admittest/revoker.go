// Package admittest has stand-ins for the dependencies of the gate.
package admittest

import (
	"context"
	"sync/atomic"

	"github.com/meshgate/meshgate/controlplane/store"
)

// Revoker is an admit.Revoker whose functions a test can replace. With the zero value, as
// without filters, everything succeeds at once.
type Revoker struct {
	OnStage   func(store.Tx) error
	OnPublish func(context.Context, store.Commit) error
	OnSettle  func(ctx context.Context, scopes ...string) error
	// Open counts the writes that were begun and neither published nor abandoned.
	Open atomic.Int64
}

// Begin implements admit.Revoker.
func (r *Revoker) Begin() (publish func(context.Context, store.Commit) error, abandon func()) {
	r.Open.Add(1)
	publish = func(ctx context.Context, c store.Commit) error {
		r.Open.Add(-1)
		if r.OnPublish == nil {
			return nil
		}
		return r.OnPublish(ctx, c)
	}
	return publish, func() { r.Open.Add(-1) }
}

// Stage implements admit.Revoker.
func (r *Revoker) Stage(tx store.Tx) error {
	if r.OnStage == nil {
		return nil
	}
	return r.OnStage(tx)
}

// Settle implements admit.Revoker.
func (r *Revoker) Settle(ctx context.Context, scopes ...string) error {
	if r.OnSettle == nil {
		return nil
	}
	return r.OnSettle(ctx, scopes...)
}
