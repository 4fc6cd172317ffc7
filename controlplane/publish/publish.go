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

// Publisher takes what nodes should have. Calls about one scope and its nodes come one at a
// time. Some calls come while the loop is locked, so implementations must not call the
// loop.
type Publisher interface {
	// Announce replaces sets and revisions of scopes, in one step.
	Announce(...snapshot.Publication)
	// Drop forgets a node.
	Drop(node string)
	// End forgets a scope.
	End(scope string)
}

// Parameters returns the parameters that a gateway enrolled with. It fails with NotFound
// for a node that may not have configuration.
type Parameters interface {
	Gateway(ctx context.Context, node string) (edge.Params, error)
}

// Issued returns the dataplanes of a mesh that already hold a certificate from before this
// process started. The map goes from the dataplane name to the backend that signed the
// certificate.
type Issued func(ctx context.Context, mesh string) (map[string]string, error)

// Options are the settings of a loop. Scopes are planned in parallel, so all functions and
// interfaces here must be safe for concurrent use.
type Options struct {
	Views      *view.Views
	Publisher  Publisher
	Parameters Parameters
	Identities Identities
	// SidecarLog says what the proxies of meshes log.
	SidecarLog accesslog.Settings
	// Policies are the policies of meshes.
	Policies []*policy.Policy
	// Kinds lists all stored kinds. They tell which scope a change belongs to. A change of
	// a kind that is not listed belongs to the scopes that show it.
	Kinds []*model.Kind
	// Latest returns the newest revision of the store.
	Latest func() uint64
	// Issued may be nil.
	Issued Issued
	// Planned is called with the duration of each round. It may be nil.
	Planned func(took time.Duration)
	// Shown is called with each state of a mesh that is planned, before its plan. It must not
	// block. It may be nil.
	Shown func(*view.Mesh)
	// Check compares every batch of a scope with a plan made from nothing, and logs
	// differences. It is expensive.
	Check bool
	Log   *slog.Logger
}

// Loop plans and publishes. Each scope has its own goroutine. The methods are safe for
// concurrent use.
type Loop struct {
	Options
	// sidecars and gateways make planners.
	sidecars func(policy.Outside, *view.Mesh) sidecarPlanner
	gateways func(edge.Params) gatewayPlanner

	confirmed confirmations
	// followed holds the *view.Scope of each followed control plane, by name. Introspection
	// reads it without the lock.
	followed sync.Map
	problems problems
	// scopings holds the scoping of each kind, by the name of the kind.
	scopings map[string]model.Scoping
	// begun ends the opening of the default control plane, which New begins.
	begun func()
	// opener has a signal while there may be control planes in unopened.
	opener chan struct{}

	// differences counts batches that differed from a plan made from nothing.
	differences atomic.Int64

	// mu guards the fields below. It is held only briefly: no planning, no reading and no
	// publication of sets happens under it. The beginning and the end of a scope are
	// announced to the Publisher under it, so that an end cannot arrive after the beginning
	// of the next plane with the same name. This cannot deadlock, because a Publisher takes
	// only its own locks and does not call the loop.
	mu     sync.Mutex
	planes map[string]plane
	// start starts the goroutine of a plane. It is nil unless the loop runs.
	start func(plane)
	// opening counts the goroutines that open a scope that has no plane yet.
	opening map[string]int
	// coming holds the control planes that goroutines are about to follow, or find followed.
	coming map[string]*coming
	// looksAt holds the control planes that the policies of a mesh have asked for, by mesh.
	// The value is the revision of the control plane that the published sets of the mesh
	// were made of.
	looksAt map[string]map[string]uint64
	// unread holds the control planes that will be followed but are not yet, with the error
	// that meshes looking at them get. unopened lists those that no goroutine opens yet.
	unread   map[string]error
	unopened []string
	nodes    map[string]*node
	away     away
	// moved is closed and replaced when a plane shows more than before.
	moved chan struct{}
}

// sidecarPlanner plans the proxies of a mesh. [sidecar.Planner] implements it.
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

// gatewayPlanner plans one variant of gateways.
type gatewayPlanner interface {
	Plan(*view.Gateway) edge.Result
	Check(*view.Gateway, edge.Result) error
	// copied returns a planner that remembers the same and is used independently.
	copied() gatewayPlanner
}

// gateways is the planner of the product.
type gateways struct{ *edge.Planner }

func (g gateways) copied() gatewayPlanner { return gateways{g.Copy()} }

type node struct {
	plane plane
	// set is the set that was last published for the node.
	set *resource.Set
	// streams counts connections. Two connections of one node are normal while a half-open
	// connection has not been noticed.
	streams int
}

// New returns a loop. Call Run to start it.
func New(o Options) *Loop {
	l := &Loop{
		Options: o, moved: make(chan struct{}), opener: make(chan struct{}, 1),
		unread: map[string]error{model.DefaultControlPlane: policy.ErrReading},
		planes: map[string]plane{}, opening: map[string]int{}, coming: map[string]*coming{}, looksAt: map[string]map[string]uint64{}, scopings: map[string]model.Scoping{}, nodes: map[string]*node{}, away: newAway(maxAway),
	}
	for _, k := range l.Kinds {
		l.scopings[k.Name] = k.Scoping
	}
	l.gateways = func(p edge.Params) gatewayPlanner { return gateways{edge.NewPlanner(p)} }
	l.sidecars = func(outside policy.Outside, state *view.Mesh) sidecarPlanner {
		return sidecar.New(l.Policies, outside, l.SidecarLog, state)
	}
	l.begun = l.begin(ControlPlaneScope(model.DefaultControlPlane))
	return l
}

// Run works until ctx ends, and returns the error of ctx. The default control plane is
// followed from the start, so that revisions are published even without proxies. If it
// cannot be read, everything else continues.
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

// startAll starts the goroutines of the existing planes, and of those that are opened
// later.
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

// closeAll stops following all planes.
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

// add registers a plane that is followed from now on. The caller holds both locks.
func (l *Loop) add(p plane) {
	l.planes[p.id()] = p
	if l.start != nil {
		l.start(p)
	}
}

// errUnknown is the error for nodes that are not connected.
func errUnknown(id string) error { return fault.New(fault.NotFound, "node %s is not connected", id) }
