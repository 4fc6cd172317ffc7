package census

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// retry is after how long everything is listed again that could not be read.
const retry = time.Second

// Options of a census.
type Options struct {
	Store store.Store
	// Kinds are the counted kinds; those without a Document are ignored.
	Kinds []*model.Kind
	// Insight returns what is known about the proxy of a dataplane; nil if nothing is. Whoever
	// changes it calls [Census.Changed].
	Insight func(meshName, dataplane string) *insight.DataplaneInsight
	// Online reports whether the control plane of a zone, or a proxy of a zone, is connected.
	// Whoever changes it for a proxy calls [Census.Changed]. For a control plane nobody can: it is
	// asked when the zone is written, and so must answer the same as long as the census runs.
	Online func(k *model.Kind, name string) bool
	Log    *slog.Logger
	// Now is the clock; nil = time.Now.
	Now func() time.Time
}

// Census counts. Its methods are safe for concurrent use.
type Census struct {
	Options
	state atomic.Pointer[State]
	// wake has room for one signal: a proxy has changed.
	wake chan struct{}

	mu sync.Mutex
	// changed are the dataplanes whose proxies have changed; marks counts these changes.
	changed map[model.Key]struct{}
	marks   uint64
	// moved is closed and replaced with each state.
	moved chan struct{}

	// counting guards the counter. It is held while changes are applied.
	counting sync.Mutex
	counter  *counter
	// listed are the directories of the counter that has counted everything.
	listed atomic.Pointer[directories]
}

// New returns a census that counts once it runs.
func New(o Options) *Census {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Census{Options: o, wake: make(chan struct{}, 1), changed: map[model.Key]struct{}{}, moved: make(chan struct{})}
}

// Changed records that something else is known about the proxy of a dataplane, or of a zone, whose
// scope is that of its node id. It does not block.
func (c *Census) Changed(scope, name string) {
	key := model.Key{Kind: mesh.Dataplanes.Name, Scope: scope, Name: name}
	for _, t := range mesh.ZoneProxies {
		if scope == mesh.ZoneNodeScope(t) {
			key = model.Key{Kind: mesh.ZoneKind(t).Name, Name: name}
		}
	}
	c.mu.Lock()
	c.changed[key] = struct{}{}
	c.marks++
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Now returns a state that counts everything that had happened when it was called, and the time.
// The error is Unavailable if ctx ends before.
func (c *Census) Now(ctx context.Context) (*State, time.Time, error) {
	revision := c.Store.Revision()
	c.mu.Lock()
	marks := c.marks
	c.mu.Unlock()
	for {
		c.mu.Lock()
		moved := c.moved
		c.mu.Unlock()
		if s := c.state.Load(); s != nil && s.revision >= revision && s.marks >= marks {
			return s, c.Options.Now(), nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, time.Time{}, fault.Wrap(fault.Unavailable, ctx.Err(), "the resources are not counted yet")
		}
	}
}

// Run counts until ctx ends, and returns its error or that of the store.
func (c *Census) Run(ctx context.Context) error {
	for {
		revision, err := c.load(ctx)
		if err == nil {
			err = c.follow(ctx, revision)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, lost := errors.AsType[*store.HistoryLost](err); lost {
			continue
		}
		c.Log.Error("resources cannot be counted, and are counted anew", "error", err, "next_attempt", retry.String())
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// follow applies changes until one of both sources ends.
func (c *Census) follow(ctx context.Context, revision uint64) error {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		for {
			select {
			case <-c.wake:
				c.reports()
			case <-ctx.Done():
				return
			}
		}
	})
	for events, err := range c.Store.Watch(ctx, revision) {
		if err != nil {
			return err
		}
		if err := c.events(ctx, events); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// events applies the changes of one commit.
func (c *Census) events(ctx context.Context, events []store.Event) error {
	c.counting.Lock()
	defer c.counting.Unlock()
	last := events[len(events)-1].Revision
	concerned := events[:0:0]
	for _, e := range events {
		if c.counter.of[e.Key.Kind] != nil {
			concerned = append(concerned, e)
		}
	}
	if len(concerned) == 0 {
		s := *c.state.Load()
		s.revision = last
		c.publish(&s)
		return nil
	}
	err := c.Store.View(ctx, func(r store.Reader) error {
		for _, e := range concerned {
			if err := c.apply(r, e); err != nil {
				return fmt.Errorf("count %s %s: %w", e.Key.Kind, e.Key.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	old := c.state.Load()
	s := c.counter.state(old, c.Options.Now().UTC())
	s.revision, s.marks = last, old.marks
	c.publish(s)
	return nil
}

// reports applies what else is known about proxies.
func (c *Census) reports() {
	c.counting.Lock()
	defer c.counting.Unlock()
	keys, marks := c.take()
	for key := range keys {
		if t := mesh.ZoneProxyOf(key.Kind); t != "" {
			c.counter.present(key, c.Online(mesh.ZoneKind(t), key.Name))
			continue
		}
		in := c.Insight(key.Scope, key.Name)
		c.counter.reported(key, in)
		c.counter.listed[mesh.Dataplanes].known(key.Scope, key.Name, in != nil)
	}
	old := c.state.Load()
	s := c.counter.state(old, c.Options.Now().UTC())
	s.revision, s.marks = old.revision, marks
	c.publish(s)
}

// take returns the dataplanes whose proxies have changed, and the number of changes.
func (c *Census) take() (map[model.Key]struct{}, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := c.changed
	c.changed = map[model.Key]struct{}{}
	return keys, c.marks
}

// publish shows a state. c.counting is held, so that states follow each other.
func (c *Census) publish(s *State) {
	c.state.Store(s)
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.moved)
	c.moved = make(chan struct{})
}
