package publish

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/accesslog"
	"github.com/meshgate/meshgate/xds/plan/edge"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// Publisher takes what nodes hold. Calls about one scope and its nodes come one at a
// time. Some come while the loop is locked: none of them calls the loop.
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
	Gateway(ctx context.Context, node string) (edge.Params, error)
}

// Issued tells which dataplanes of a mesh hold a certificate, by name, with the
// backend that signed it, from before this process.
type Issued func(ctx context.Context, mesh string) (map[string]string, error)

// Options are what a loop works with. Scopes are planned side by side: all that is
// called from here is safe for concurrent use.
type Options struct {
	Views      *view.Views
	Publisher  Publisher
	Parameters Parameters
	Identities Identities
	// SidecarLog says what proxies of meshes log.
	SidecarLog accesslog.Settings
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

// Loop plans and publishes, each scope by a goroutine of its own. Its methods are safe
// for concurrent use.
type Loop struct {
	Options
	// sidecars and gateways make planners.
	sidecars func(policy.Outside, *view.Mesh) sidecarPlanner
	gateways func(edge.Params) gatewayPlanner

	confirmed confirmations
	// followed holds the *view.Scope of each control plane that is followed, by
	// name: introspection reads it without the lock.
	followed sync.Map
	problems problems
	// scopings are those of the kinds, by name.
	scopings map[string]model.Scoping
	// begun ends the opening of the default control plane.
	begun func()
	// opener has a signal while there may be control planes in unopened.
	opener chan struct{}

	// differences counts batches that were not what a plan from nothing makes.
	differences atomic.Int64

	// mu guards what follows, for moments: nothing is planned or read while it is held,
	// and no sets are published. That a scope begins and ends is told to the Publisher
	// under it, so that an end never overtakes the beginning of the next plane of that
	// name; a Publisher locks itself only and calls nothing here, so this ends.
	mu     sync.Mutex
	planes map[string]plane
	// start begins the goroutine of a plane; nil before the loop runs and after it.
	start func(plane)
	// opening counts those who open a scope that has no plane yet.
	opening map[string]int
	// looksAt are the control planes that the policies of a mesh have asked for, each
	// with the revision of it that the published sets of the mesh were made of.
	looksAt map[string]map[string]uint64
	// unread are the control planes that are not followed yet and will be, with what
	// who looks at one is told, and unopened are those with which nobody has begun.
	unread   map[string]error
	unopened []string
	nodes    map[string]*node
	away     away
	// moved is closed and replaced when a plane shows more than before.
	moved chan struct{}
}

// sidecarPlanner plans the proxies of a mesh; it is a [sidecar.Planner].
type sidecarPlanner interface {
	Update(state *view.Mesh, keys []model.Key, all bool)
	Outside()
	Awaits(dataplane string) string
	Secured(dataplane string, yes bool)
	Join(dataplane string) bool
	Begun(dataplane string)
	Bare(dataplane string, yes bool)
	Leave(dataplane string)
	Plan() map[string]*resource.Set
	Failures(dataplane string) []failure
	Unserved(dataplane string) []failure
	Check() error
}

// gatewayPlanner plans one class of gateways; it is a [edge.Planner].
type gatewayPlanner interface {
	Plan(*view.Gateway) edge.Result
	Check(*view.Gateway, edge.Result) error
}

type node struct {
	plane plane
	// set is what was published for it last.
	set *resource.Set
	// streams counts connections: two of one node are normal while a half-open
	// one has not been noticed.
	streams int
}

// New returns a loop; Run does its work.
func New(o Options) *Loop {
	l := &Loop{
		Options: o, moved: make(chan struct{}), opener: make(chan struct{}, 1),
		unread: map[string]error{model.DefaultControlPlane: policy.ErrReading},
		planes: map[string]plane{}, opening: map[string]int{}, looksAt: map[string]map[string]uint64{}, scopings: map[string]model.Scoping{}, nodes: map[string]*node{}, away: newAway(maxAway),
	}
	for _, k := range l.Kinds {
		l.scopings[k.Name] = k.Scoping
	}
	l.gateways = func(p edge.Params) gatewayPlanner { return edge.NewPlanner(p) }
	l.sidecars = func(outside policy.Outside, state *view.Mesh) sidecarPlanner {
		return sidecar.New(l.Policies, outside, l.SidecarLog, state)
	}
	l.begun = l.begin(ControlPlaneScope(model.DefaultControlPlane))
	return l
}

// Run works until ctx ends, whose error it returns. The default control plane
// is followed from the start, so that revisions are published without proxies; as
// long as it cannot be read, everything else goes on.
func (l *Loop) Run(ctx context.Context) error {
	var work sync.WaitGroup
	defer l.closeAll()
	defer work.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer l.startNone()
	l.startAll(func(p plane) { work.Go(func() { l.drive(ctx, p) }) })
	work.Go(func() {
		defer l.begun()
		l.open(ctx, model.DefaultControlPlane)
	})
	l.openAll(ctx, work.Go)
	return ctx.Err()
}

// startAll begins the goroutines of the planes, and of those that are opened from now
// on.
func (l *Loop) startAll(start func(plane)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start = start
	for _, p := range l.planes {
		start(p)
	}
}

func (l *Loop) startNone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start = nil
}

// closeAll ends the following of all planes.
func (l *Loop) closeAll() {
	l.mu.Lock()
	planes := slices.Collect(maps.Values(l.planes))
	l.mu.Unlock()
	for _, p := range planes {
		p.common().mu.Lock()
		p.close()
		p.common().mu.Unlock()
	}
}

// add notes a plane that is followed from now on. The caller holds both locks.
func (l *Loop) add(p plane) {
	l.planes[p.id()] = p
	if l.start != nil {
		l.start(p)
	}
}

// errUnknown answers for nodes that are not connected.
func errUnknown(id string) error { return fault.New(fault.NotFound, "node %s is not connected", id) }
