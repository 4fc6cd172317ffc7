package admit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// ending is a store that ends before the outcome of its commits is known.
type ending struct{ store.Store }

// Update implements store.Store.
func (s ending) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	if _, err := s.Store.Update(ctx, class, fn); err != nil {
		return store.Commit{}, err
	}
	return store.Commit{}, fmt.Errorf("%w (disk I/O error)", store.ErrUndecided)
}

// TestUndecidedWrite: a write with an unknown outcome stays begun. Another writer that finds
// its own work done by it waits, and is not told that there is nothing to wait for.
func TestUndecidedWrite(t *testing.T) {
	s := memstore.New()
	defer func() { _ = s.Close() }()
	r := &admittest.Revoker{OnPublish: func(context.Context, store.Commit) error {
		t.Error("it was published")
		return nil
	}}
	gate := admit.New(ending{s}, r, gateway.Kinds(), time.Now).As(model.System("test"))
	_, err := gate.Create(t.Context(), admit.Address{Kind: gateway.Consumers, Scope: scope}, admit.Input{Values: map[string]any{"username": "a"}})
	if !errors.Is(err, store.ErrUndecided) {
		t.Errorf("got %v", err)
	}
	if open := r.Open.Load(); open != 1 {
		t.Errorf("%d writes are begun", open)
	}
}
