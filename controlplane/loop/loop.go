package loop

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/plan/gateway"
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

// Parameters tells what a proxy brings along. It fails with NotFound for a node
// that may not have configuration.
type Parameters interface {
	Gateway(ctx context.Context, node string) (gateway.Params, error)
}

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
	Log        *slog.Logger
}

// Loop plans and publishes. Its methods are safe for concurrent use.
type Loop struct {
	Options
	wake chan struct{}

	mu     sync.Mutex
	planes map[string]*controlPlane
	nodes  map[string]*node
	// published is the revision that everything connected shows.
	published uint64
	// moved is closed and replaced when published moves.
	moved chan struct{}
}

// controlPlane is one scope with the classes of its proxies.
type controlPlane struct {
	name    string
	scope   *view.Scope
	sub     *view.Subscription
	classes map[gateway.Params]*class
	// planned is the revision that all classes show.
	planned uint64
	// failed is why the last plan as a whole failed, if it did.
	failed error
}

// class are the proxies with equal parameters.
type class struct {
	planner *gateway.Planner
	result  gateway.Result
	nodes   int
}

type node struct {
	plane *controlPlane
	class gateway.Params
	// streams counts connections: two of one node are normal while a half-open
	// one has not been noticed.
	streams int
}

// New returns a loop; Run does its work.
func New(o Options) *Loop {
	return &Loop{
		Options: o, wake: make(chan struct{}, 1), moved: make(chan struct{}),
		planes: map[string]*controlPlane{}, nodes: map[string]*node{},
	}
}

// Run works until ctx ends, whose error it returns. The default control plane
// is followed from the start, so that revisions are published without proxies.
func (l *Loop) Run(ctx context.Context) error {
	if _, err := l.plane(ctx, model.DefaultControlPlane); err != nil {
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
		p.sub.Close()
	}
}

// plane returns a control plane, following it from now on.
func (l *Loop) plane(ctx context.Context, name string) (*controlPlane, error) {
	scope, err := l.Views.ControlPlane(ctx, name)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.planes[name]
	if p == nil {
		p = &controlPlane{
			name: name, scope: scope, sub: scope.Subscribe(l.wake),
			classes: map[gateway.Params]*class{}, planned: scope.State().Revision(),
		}
		l.planes[name] = p
	}
	return p, nil
}

// round plans what changed and publishes it.
func (l *Loop) round() {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := map[*class]bool{}
	for _, p := range l.planes {
		c := p.sub.Take()
		if c.All || len(c.Keys) > 0 || p.failed != nil {
			for _, cl := range p.classes {
				changed[cl] = l.plan(p, cl, c.State)
			}
		}
		if p.failed == nil {
			p.planned = max(p.planned, c.State.Revision())
		}
	}
	batch := map[string]*resource.Set{}
	for id, n := range l.nodes {
		if cl := n.plane.classes[n.class]; changed[cl] {
			batch[id] = cl.result.Set
		}
	}
	l.publish(batch)
}

// plan plans a class and reports whether its bytes differ. An unchanged set
// stays the same pointer.
func (l *Loop) plan(p *controlPlane, c *class, g *view.Gateway) (changed bool) {
	defer func() {
		if v := recover(); v != nil {
			p.failed = &plan.Failed{Value: v, Stack: debug.Stack()}
			l.Log.Error("planning a control plane failed", "control_plane", p.name, "error", p.failed.Error())
		}
	}()
	before, failed := c.result.Set, c.result.Failures
	c.result = c.planner.Plan(g)
	p.failed = nil
	for _, f := range unheardOf(failed, c.result.Failures) {
		l.Log.Warn("a resource cannot be configured", "control_plane", p.name, "resource", f.Cell, "kept_last_good", f.Kept, "error", f.Err)
	}
	if before != nil && equal(before, c.result.Set) {
		c.result.Set = before
		return false
	}
	return true
}

// unheardOf returns the failures that the plan before did not have, so that each
// is logged once and not with every write.
func unheardOf(before, now []plan.Failure) []plan.Failure {
	known := map[string]bool{}
	for _, f := range before {
		known[f.Cell+" "+f.Err.Error()] = true
	}
	var out []plan.Failure
	for _, f := range now {
		if !known[f.Cell+" "+f.Err.Error()] {
			out = append(out, f)
		}
	}
	return out
}

func equal(a, b *resource.Set) bool {
	for _, t := range resource.Types {
		if !b.Diff(a, t).Empty() {
			return false
		}
	}
	as, bs := a.Secrets(), b.Secrets()
	if len(as) != len(bs) {
		return false
	}
	for i := range as {
		if as[i] != bs[i] {
			return false
		}
	}
	return true
}

// publish announces the oldest revision that any control plane shows.
func (l *Loop) publish(batch map[string]*resource.Set) {
	first, revision := true, uint64(0)
	for _, p := range l.planes {
		if first || p.planned < revision {
			first, revision = false, p.planned
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
