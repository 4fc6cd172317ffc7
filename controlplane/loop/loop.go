package loop

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan/gateway"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// Publisher takes what nodes hold. Calls come one at a time.
type Publisher interface {
	// Announce replaces sets and revisions of scopes, all at once.
	Announce(...snapshot.Publication)
	// Drop forgets a node.
	Drop(node string)
	// End forgets a scope.
	End(scope string)
}

// Parameters tells what a gateway brings along. It fails with NotFound for a node
// that may not have configuration.
type Parameters interface {
	Gateway(ctx context.Context, node string) (gateway.Params, error)
}

// Issued tells which dataplanes of a mesh hold a certificate, by name, with the
// backend that signed it, from before this process.
type Issued func(ctx context.Context, mesh string) (map[string]string, error)

// Bounds of the pause between two rounds. A round that takes long makes the next
// one wait twice as long, within these bounds, so that storms are coalesced.
const (
	minWindow = 5 * time.Millisecond
	maxWindow = 100 * time.Millisecond
)

// Options are what a loop works with.
type Options struct {
	Views      *view.Views
	Publisher  Publisher
	Parameters Parameters
	Identities Identities
	// Policies are those of meshes.
	Policies []*policy.Policy
	// Kinds are all that are stored: they tell whose a change is. One of a kind that
	// is not listed belongs to the scopes that show it.
	Kinds []*model.Kind
	// Latest returns the newest revision of the store.
	Latest func() uint64
	// Issued may be nil.
	Issued Issued
	// Planned is told how long each round took; it may be nil.
	Planned func(took time.Duration)
	// Check holds every batch of a mesh and of a control plane against a plan from
	// nothing and logs what differs. It is dear.
	Check bool
	Log   *slog.Logger
}

// Loop plans and publishes. Its methods are safe for concurrent use.
type Loop struct {
	Options
	wake chan struct{}
	// sidecars and gateways make planners.
	sidecars func(*view.Mesh) sidecarPlanner
	gateways func(gateway.Params) gatewayPlanner

	confirmed confirmations
	// followed holds the *view.Scope of each control plane that is followed, by
	// name. It is read without the lock, which a round keeps while it plans.
	followed sync.Map
	problems problems
	// scopings are those of the kinds, by name.
	scopings map[string]model.Scoping
	// begun ends the opening of the default control plane.
	begun func()
	// opener has a signal while there may be control planes in unopened.
	opener chan struct{}

	// enrolling is held from the reading of a gateway's parameters to their planning.
	// It is taken before mu.
	enrolling sync.Mutex

	mu     sync.Mutex
	planes map[string]plane
	// opening counts those who open a scope that has no plane yet.
	opening map[string]int
	// looksAt are the control planes that the policies of a mesh have asked for.
	looksAt map[string]map[string]bool
	// unread are the control planes that are not followed yet and will be, with what
	// who looks at one is told, and unopened are those with which nobody has begun.
	unread   map[string]error
	unopened []string
	// shifted says that a control plane turned out to be unreadable.
	shifted bool
	nodes   map[string]*node
	away    away
	// moved is closed and replaced when a plane shows more than before.
	moved chan struct{}
	// differences counts batches that were not what a plan from nothing makes.
	differences int
}

// sidecarPlanner plans the proxies of a mesh; it is a [sidecar.Planner].
type sidecarPlanner interface {
	Update(state *view.Mesh, keys []model.Key, all bool)
	Outside()
	Awaits(dataplane string) string
	Secured(dataplane string, yes bool)
	Join(dataplane string) bool
	Bare(dataplane string, yes bool)
	Leave(dataplane string)
	Plan() map[string]*resource.Set
	Failures(dataplane string) []failure
	Unserved(dataplane string) []failure
	Check() error
}

// gatewayPlanner plans one class of gateways; it is a [gateway.Planner].
type gatewayPlanner interface {
	Plan(*view.Gateway) gateway.Result
	Check(*view.Gateway, gateway.Result) error
}

type node struct {
	plane plane
	// streams counts connections: two of one node are normal while a half-open
	// one has not been noticed.
	streams int
}

// New returns a loop; Run does its work.
func New(o Options) *Loop {
	l := &Loop{
		Options: o, wake: make(chan struct{}, 1), moved: make(chan struct{}), opener: make(chan struct{}, 1),
		unread: map[string]error{model.DefaultControlPlane: policy.ErrReading},
		planes: map[string]plane{}, opening: map[string]int{}, looksAt: map[string]map[string]bool{}, scopings: map[string]model.Scoping{}, nodes: map[string]*node{}, away: newAway(maxAway),
	}
	for _, k := range l.Kinds {
		l.scopings[k.Name] = k.Scoping
	}
	l.gateways = func(p gateway.Params) gatewayPlanner { return gateway.NewPlanner(p) }
	l.sidecars = func(state *view.Mesh) sidecarPlanner {
		return sidecar.New(l.Policies, outside{l, state.Name()}, state)
	}
	l.begun = l.begin(ControlPlaneScope(model.DefaultControlPlane))
	return l
}

// Run works until ctx ends, whose error it returns. The default control plane
// is followed from the start, so that revisions are published without proxies; as
// long as it cannot be read, everything else goes on.
func (l *Loop) Run(ctx context.Context) error {
	var work sync.WaitGroup
	defer work.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work.Go(func() {
		defer l.begun()
		l.open(ctx, model.DefaultControlPlane)
	})
	work.Go(func() { l.openAll(ctx, work.Go) })
	defer l.unsubscribe()
	window, retry := time.NewTimer(0), time.NewTimer(0)
	defer window.Stop()
	defer retry.Stop()
	for {
		// The window of the last round ends before the next begins.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-window.C:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.wake:
		case <-retry.C:
		}
		start := time.Now()
		next := l.round(start)
		if l.Planned != nil {
			l.Planned(time.Since(start))
		}
		retry.Stop()
		if !next.IsZero() {
			retry.Reset(time.Until(next))
		}
		window.Reset(min(max(2*time.Since(start), minWindow), maxWindow))
	}
}

func (l *Loop) unsubscribe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.planes {
		p.close()
	}
}

// round plans what changed and publishes it. Control planes come first, since
// meshes look at them. It returns when something that failed is due again, zero if
// nothing is.
func (l *Loop) round(now time.Time) (next time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	batches := map[plane]batch{}
	// from is the oldest revision from which a control plane has moved.
	moved, from := false, snapshot.Newest
	for _, p := range l.planes {
		if g, ok := p.(*controlPlane); ok {
			before := g.state.Revision()
			batches[p] = p.update(now)
			if g.touched {
				moved, from = true, min(from, before)
			}
		}
	}
	if l.shifted {
		moved, from, l.shifted = true, min(from, l.Latest()), false
	}
	secured := l.confirmed.take()
	for _, p := range l.planes {
		if m, ok := p.(*meshPlane); ok {
			m.note(secured[m.name], moved, from)
			batches[p] = p.update(now)
			m.advance(l.bound(m.name))
		}
	}
	l.announce(batches)
	for _, p := range l.planes {
		fs := p.failures()
		if l.problems.set(p.id(), fs); len(fs) > 0 {
			l.turn() // who waits for this plane may not want to any more
		}
		if at := p.due(); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
		l.reap(p)
	}
	return next
}

// bound is the oldest revision of the control planes that a mesh looks at. One that
// cannot be read bounds nobody. The caller holds mu.
func (l *Loop) bound(meshName string) uint64 {
	bound := noRevision
	for name := range l.looksAt[meshName] {
		if g, ok := l.planes[ControlPlaneScope(name)].(*controlPlane); ok && g.scope.Err() == nil {
			bound = min(bound, g.state.Revision())
		}
	}
	return bound
}

// signal has a round made.
func (l *Loop) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// reap ends a plane whose mesh is gone, with the last of its proxies. The caller
// holds mu.
func (l *Loop) reap(p plane) {
	if !p.gone() {
		return
	}
	delete(l.planes, p.id())
	l.problems.drop(p.id())
	if m, ok := p.(*meshPlane); ok {
		delete(l.looksAt, m.name)
	}
	p.close()
	l.Publisher.End(p.id())
	l.turn()
}

// errUnknown answers for nodes that are not connected.
func errUnknown(id string) error { return fault.New(fault.NotFound, "node %s is not connected", id) }
