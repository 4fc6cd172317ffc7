package view

import (
	"context"
	"log/slog"
	"sync"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Views opens scopes on demand and owns their goroutines.
type Views struct {
	store    store.Store
	policies []*model.Kind
	log      *slog.Logger
	ctx      context.Context //nolint:containedctx // the lifetime of the goroutines, ended by Close
	stop     context.CancelFunc
	wg       sync.WaitGroup

	mu     sync.Mutex
	planes map[string]*Scope[*Gateway]
	meshes map[string]*Scope[*Mesh]
	closed bool
}

// New returns views of a store. policies are the policy kinds that views of
// meshes hold; their specs implement [model.Selecting]. The caller closes the
// views before the store.
func New(s store.Store, policies []*model.Kind, log *slog.Logger) *Views {
	ctx, stop := context.WithCancel(context.Background())
	return &Views{
		store: s, policies: policies, log: log, ctx: ctx, stop: stop,
		planes: map[string]*Scope[*Gateway]{}, meshes: map[string]*Scope[*Mesh]{},
	}
}

// ControlPlane returns the view of a control plane, once it has loaded. The
// first call for a name starts it; it then lives until Close. Unavailable if
// the views are closed, and the error of ctx if that ends before the load.
func (v *Views) ControlPlane(ctx context.Context, name string) (*Scope[*Gateway], error) {
	return open(ctx, v, v.planes, name, gatewaySource)
}

// Mesh returns the view of a mesh, which need not exist yet: [Mesh.Spec] is nil
// then. Otherwise it is as [Views.ControlPlane]. A control plane and a mesh of
// the same name have nothing to do with each other.
func (v *Views) Mesh(ctx context.Context, name string) (*Scope[*Mesh], error) {
	return open(ctx, v, v.meshes, name, func(name string) source[*Mesh] { return meshSource(name, v.policies) })
}

// open returns a scope of scopes, which v.mu guards.
func open[S State[S]](ctx context.Context, v *Views, scopes map[string]*Scope[S], name string, src func(string) source[S]) (*Scope[S], error) {
	v.mu.Lock()
	if v.closed {
		v.mu.Unlock()
		return nil, fault.New(fault.Unavailable, "the control plane is shutting down")
	}
	s := scopes[name]
	if s == nil {
		s = newScope(name, src(name), v.store, v.log)
		scopes[name] = s
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
