package view

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Views opens scopes on demand and owns their goroutines. A scope ends when its last user has
// released it.
type Views struct {
	store    store.Store
	resolver scopes.Resolver
	policies []*model.Kind
	zone     string
	log      *slog.Logger
	ctx      context.Context //nolint:containedctx // the lifetime of the goroutines, ended by Close
	stop     context.CancelFunc
	wg       sync.WaitGroup

	mu     sync.Mutex
	planes map[string]*Scope[*Gateway]
	meshes map[string]*Scope[*Mesh]
	zones  map[string]*Scope[*Zone]
	closed bool
}

// New returns views of a store. policies are the kinds that views of meshes hold in addition
// to their own. Their specs implement [model.Selecting] or, for kinds that tell where
// services are, [Locating]. The caller closes the views before the store.
func New(s store.Store, policies []*model.Kind, log *slog.Logger) *Views {
	return NewResolved(s, scopes.Each{}, policies, log)
}

// NewResolved is New with a resolver that tells which scopes control planes consist of.
func NewResolved(s store.Store, resolver scopes.Resolver, policies []*model.Kind, log *slog.Logger) *Views {
	ctx, stop := context.WithCancel(context.Background())
	return &Views{
		store: s, resolver: resolver, policies: policies, zone: mesh.DefaultZone, log: log, ctx: ctx, stop: stop,
		planes: map[string]*Scope[*Gateway]{}, meshes: map[string]*Scope[*Mesh]{}, zones: map[string]*Scope[*Zone]{},
	}
}

// InZone says in which zone the control plane is. It is called before any view is opened.
func (v *Views) InZone(name string) *Views {
	v.zone = name
	return v
}

// ControlPlane returns the view of a control plane after it has loaded. The first user of a
// name starts the view, and it ends when the last one has released it. The error is
// Unavailable if the views are closed or the state cannot be read, and that of ctx if it ends
// before the view has loaded.
func (v *Views) ControlPlane(ctx context.Context, name string) (*Scope[*Gateway], error) {
	return open(ctx, v, v.planes, name, false, v.gatewaySource)
}

// AwaitControlPlane is ControlPlane, but it waits as long as the state cannot be read.
func (v *Views) AwaitControlPlane(ctx context.Context, name string) (*Scope[*Gateway], error) {
	return open(ctx, v, v.planes, name, true, v.gatewaySource)
}

func (v *Views) gatewaySource(name string) source[*Gateway] { return gatewaySource(name, v.resolver) }

// Mesh returns the view of a mesh, which need not exist yet: [Mesh.Spec] is nil then.
// Otherwise it behaves like [Views.ControlPlane]. A control plane and a mesh of the same name
// are unrelated.
func (v *Views) Mesh(ctx context.Context, name string) (*Scope[*Mesh], error) {
	return open(ctx, v, v.meshes, name, false, func(name string) source[*Mesh] { return meshSource(name, v.zone, v.policies) })
}

// OwnZone returns the view of the zone of this control plane. It behaves like [Views.Mesh].
func (v *Views) OwnZone(ctx context.Context) (*Scope[*Zone], error) {
	return open(ctx, v, v.zones, v.zone, false, v.zoneSource)
}

// AwaitOwnZone is OwnZone, but it waits as long as the state cannot be read.
func (v *Views) AwaitOwnZone(ctx context.Context) (*Scope[*Zone], error) {
	return open(ctx, v, v.zones, v.zone, true, v.zoneSource)
}

func (v *Views) zoneSource(name string) source[*Zone] { return zoneSource(name, v.policies) }

// open returns a scope from scopes, which v.mu guards.
func open[S State[S]](
	ctx context.Context, v *Views, scopes map[string]*Scope[S], name string, patient bool, src func(string) source[S],
) (*Scope[S], error) {
	s, err := enter(v, scopes, name, src)
	if err != nil {
		return nil, err
	}
	stuck := s.stuck
	if patient {
		stuck = nil
	}
	select {
	case <-s.ready:
		return s, nil
	case <-stuck:
		err = fault.Wrap(fault.Unavailable, s.Err(), "the state of %s cannot be read", name)
	case <-ctx.Done():
		err = ctx.Err()
	case <-v.ctx.Done():
		err = errClosing
	}
	select {
	case <-s.ready: // it failed before, and has loaded meanwhile
		return s, nil
	default:
	}
	s.Release()
	return nil, err
}

var errClosing = fault.New(fault.Unavailable, "the control plane is shutting down")

// enter counts a user of a scope, and starts the scope for the first one.
func enter[S State[S]](v *Views, scopes map[string]*Scope[S], name string, src func(string) source[S]) (*Scope[S], error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, errClosing
	}
	s := scopes[name]
	if s == nil {
		s = newScope(name, src(name), v.store, v.log)
		ctx, stop := context.WithCancel(v.ctx)
		s.leave = func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			if s.users--; s.users == 0 {
				delete(scopes, name)
				stop()
			}
		}
		scopes[name] = s
		v.wg.Go(func() { s.run(ctx) })
	}
	s.users++
	return s, nil
}

// Close ends all scopes and waits for their goroutines.
func (v *Views) Close() {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.stop()
	v.wg.Wait()
}

// Commit returns the changes of a commit; known is false if the store no longer remembers
// them. It does not wait, because the revision exists.
func (v *Views) Commit(ctx context.Context, revision uint64) (keys []model.Key, known bool, err error) {
	if revision == 0 {
		return nil, false, nil
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	for events, err := range v.store.Watch(ctx, revision-1) {
		if _, lost := errors.AsType[*store.HistoryLost](err); lost {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("read commit %d: %w", revision, err)
		}
		for _, e := range events {
			keys = append(keys, e.Key)
		}
		return keys, true, nil
	}
	return nil, false, nil
}

// Exists waits until the store has a revision. The error is that of ctx or of the store.
func (v *Views) Exists(ctx context.Context, revision uint64) error {
	for {
		newest := v.store.Revision()
		if newest >= revision {
			return nil
		}
		for _, err := range v.store.Watch(ctx, newest) {
			if _, lost := errors.AsType[*store.HistoryLost](err); err != nil && !lost {
				return fmt.Errorf("wait for revision %d: %w", revision, err)
			}
			break
		}
	}
}
