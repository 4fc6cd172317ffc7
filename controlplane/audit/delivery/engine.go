package delivery

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/outward"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/alarm"
)

// Window is how long the first event of a batch waits for others.
const Window = 50 * time.Millisecond

// Writer writes. [admit.Gate] implements it.
type Writer interface {
	Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error)
}

// probe is how long a receiver that has failed is left alone while nothing new happens.
const probe = 5 * time.Minute

// Options are what an engine works with.
type Options struct {
	Store  store.Store
	Writer Writer
	Origin audit.Origin
	Signer *audit.Signer
	// Verifying makes requests to destinations whose certificates are verified, Trusting to others.
	Verifying, Trusting *outward.Client
	// Gzip compresses bodies.
	Gzip bool
	Log  *slog.Logger
	Now  func() time.Time
	// Rest waits between attempts; [alarm.Rest] if it is nil.
	Rest func(context.Context, time.Duration) error
}

// Engine delivers the events of all portals, each portal's in order. One that is slow, or dead, holds
// up nobody else.
type Engine struct {
	Options

	mu sync.Mutex
	// busy has the portals at which somebody works. The value has an entry while there may be
	// something that the worker has not looked at.
	busy map[string]chan struct{}
}

// New returns an engine. Run does the work.
func New(o Options) *Engine {
	if o.Rest == nil {
		o.Rest = alarm.Rest
	}
	return &Engine{Options: o, busy: map[string]chan struct{}{}}
}

// Run delivers until ctx ends. It returns nil then, and what is under way has ended.
func (e *Engine) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	for {
		after, err := e.wakeAll(ctx, &workers)
		if err == nil {
			err = e.follow(ctx, after, &workers)
		}
		if ctx.Err() != nil {
			return nil
		}
		if _, lost := errors.AsType[*store.HistoryLost](err); !lost {
			e.Log.Error("audit logs are not followed, and will be", "error", err)
			if e.Rest(ctx, time.Second) != nil {
				return nil
			}
		}
	}
}

// wakeAll looks at each portal, and returns the revision up to which it has looked.
func (e *Engine) wakeAll(ctx context.Context, workers *sync.WaitGroup) (revision uint64, err error) {
	var portals []string
	err = e.Store.View(ctx, func(r store.Reader) error {
		rows, err := r.List(cloud.Webhooks, store.Query{})
		for _, row := range rows {
			portals = append(portals, row.Name)
		}
		revision = r.Revision()
		return err
	})
	for _, portal := range portals {
		e.wake(ctx, portal, workers)
	}
	return revision, err
}

// follow wakes up the portals of which something changes, until the feed ends.
func (e *Engine) follow(ctx context.Context, after uint64, workers *sync.WaitGroup) error {
	for events, err := range e.Store.Watch(ctx, after) {
		if err != nil {
			return err
		}
		for _, event := range events {
			switch event.Key.Kind {
			case cloud.Webhooks.Name, cloud.Replays.Name:
				e.wake(ctx, event.Key.Name, workers)
			case cloud.Events.Name:
				if event.Op == store.Created {
					e.wake(ctx, cloud.PortalOf(event.Key.Name), workers)
				}
			case cloud.Destinations.Name:
				if _, err := e.wakeAll(ctx, workers); err != nil {
					return err
				}
			}
		}
	}
	return ctx.Err()
}

// wake starts a worker for a portal, or tells the one that is at work.
func (e *Engine) wake(ctx context.Context, portal string, workers *sync.WaitGroup) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if changed, ok := e.busy[portal]; ok {
		select {
		case changed <- struct{}{}:
		default: // it knows already
		}
		return
	}
	changed := make(chan struct{}, 1)
	e.busy[portal] = changed
	workers.Go(func() { (&worker{Engine: e, portal: portal, changed: changed}).run(ctx) })
}

// idle ends the work at a portal unless there may be more of it, and reports whether it did.
func (e *Engine) idle(portal string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.busy[portal]:
		return false
	default:
		delete(e.busy, portal)
		return true
	}
}
