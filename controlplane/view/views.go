package view

import (
	"context"
	"log/slog"
	"sync"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Views opens scopes on demand and owns their goroutines.
type Views struct {
	store store.Store
	log   *slog.Logger
	ctx   context.Context //nolint:containedctx // the lifetime of the goroutines, ended by Close
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu     sync.Mutex
	scopes map[string]*Scope
	closed bool
}

// New returns views of a store. The caller closes them before the store.
func New(s store.Store, log *slog.Logger) *Views {
	ctx, stop := context.WithCancel(context.Background())
	return &Views{store: s, log: log, ctx: ctx, stop: stop, scopes: map[string]*Scope{}}
}

// ControlPlane returns the view of a control plane, once it has loaded. The
// first call for a name starts it; it then lives until Close. Unavailable if
// the views are closed, and the error of ctx if that ends before the load.
func (v *Views) ControlPlane(ctx context.Context, name string) (*Scope, error) {
	v.mu.Lock()
	if v.closed {
		v.mu.Unlock()
		return nil, fault.New(fault.Unavailable, "the control plane is shutting down")
	}
	s := v.scopes[name]
	if s == nil {
		s = &Scope{name: name, store: v.store, log: v.log, ready: make(chan struct{}), subs: map[*Subscription]struct{}{}}
		v.scopes[name] = s
		v.wg.Go(func() { s.run(v.ctx) })
	}
	v.mu.Unlock()
	select {
	case <-s.ready:
		return s, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-v.ctx.Done():
		return nil, fault.New(fault.Unavailable, "the control plane is shutting down")
	}
}

// Close ends all scopes and waits for their goroutines.
func (v *Views) Close() {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.stop()
	v.wg.Wait()
}
