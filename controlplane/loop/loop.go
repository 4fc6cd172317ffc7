package loop

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan/gateway"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

// Publisher takes what nodes hold. Calls come one at a time.
type Publisher interface {
	// Publish replaces the sets of the named nodes, together. revision is the
	// store revision that all nodes now show; batches without nodes announce a
	// revision that changed nothing.
	Publish(batch map[string]*resource.Set, revision uint64)
	// Drop forgets a node.
	Drop(node string)
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
	// Latest returns the newest revision of the store.
	Latest func() uint64
	// Issued may be nil.
	Issued Issued
	// Check holds every batch of a mesh and of a control plane against a plan from
	// nothing and logs what differs. It is dear.
	Check bool
	Log   *slog.Logger
}

// Loop plans and publishes. Its methods are safe for concurrent use.
type Loop struct {
	Options
	wake chan struct{}

	confirmed confirmations

	mu     sync.Mutex
	planes map[string]plane
	nodes  map[string]*node
	// away are the last sets of nodes that have left.
	away map[string]*resource.Set
	// published is the revision that everything connected shows.
	published uint64
	// moved is closed and replaced when published moves.
	moved chan struct{}
	// differences counts batches that were not what a plan from nothing makes.
	differences int
}

// plane is one scope of which the proxies are planned together: a control plane
// with its gateways, or a mesh. The loop's lock guards it.
type plane interface {
	// update takes what changed since the last call, plans, and returns the sets
	// of the nodes for which something differs.
	update() map[string]*resource.Set
	// revision is the store revision that all its nodes show.
	revision() uint64
	// set is what a node should hold, nil for one it does not know.
	set(node string) *resource.Set
	// leave forgets a node.
	leave(node string)
	// failures lists what is not published as it is configured.
	failures() []Failure
	close()
}

type node struct {
	plane plane
	// streams counts connections: two of one node are normal while a half-open
	// one has not been noticed.
	streams int
}

// New returns a loop; Run does its work.
func New(o Options) *Loop {
	return &Loop{
		Options: o, wake: make(chan struct{}, 1), moved: make(chan struct{}),
		planes: map[string]plane{}, nodes: map[string]*node{}, away: map[string]*resource.Set{},
	}
}

// Run works until ctx ends, whose error it returns. The default control plane
// is followed from the start, so that revisions are published without proxies.
func (l *Loop) Run(ctx context.Context) error {
	if _, err := l.controlPlane(ctx, model.DefaultControlPlane); err != nil {
		return fmt.Errorf("open control plane %s: %w", model.DefaultControlPlane, err)
	}
	defer l.unsubscribe()
	window := time.NewTimer(0)
	defer window.Stop()
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
		}
		start := time.Now()
		l.round()
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
// meshes look at them.
func (l *Loop) round() {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch := map[string]*resource.Set{}
	moved := false
	for _, p := range l.planes {
		if g, ok := p.(*controlPlane); ok {
			l.merge(batch, p)
			moved = moved || g.touched
		}
	}
	secured := l.confirmed.take()
	for _, p := range l.planes {
		if m, ok := p.(*meshPlane); ok {
			m.note(secured[m.name], moved)
			l.merge(batch, p)
		}
	}
	l.publish(batch)
}

func (l *Loop) merge(batch map[string]*resource.Set, p plane) {
	for id, set := range p.update() {
		if l.nodes[id] != nil {
			batch[id] = set
		}
	}
}

// signal has a round made.
func (l *Loop) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// publish announces the oldest revision that any plane shows.
func (l *Loop) publish(batch map[string]*resource.Set) {
	first, revision := true, uint64(0)
	for _, p := range l.planes {
		if r := p.revision(); first || r < revision {
			first, revision = false, r
		}
	}
	moves := revision > l.published
	l.published = max(l.published, revision)
	if moves || len(batch) > 0 {
		l.Publisher.Publish(batch, l.published)
	}
	if moves {
		close(l.moved)
		l.moved = make(chan struct{})
	}
}

// Settled waits until everything connected shows a revision or a newer one.
func (l *Loop) Settled(ctx context.Context, revision uint64) error {
	for {
		l.mu.Lock()
		published, moved := l.published, l.moved
		l.mu.Unlock()
		if published >= revision {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("revision %d is not published, the newest is %d: %w", revision, published, ctx.Err())
		case <-moved:
		}
	}
}

// errUnknown answers for nodes that are not connected.
func errUnknown(id string) error { return fault.New(fault.NotFound, "node %s is not connected", id) }
