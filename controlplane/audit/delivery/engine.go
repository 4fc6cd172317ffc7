package delivery

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/audit/syslog"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/lease"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/outward"
	"github.com/meshgate/meshgate/controlplane/steady"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/notice"
	"github.com/meshgate/meshgate/xds/alarm"
)

// Window is how long the first event of a batch waits for others.
const Window = 100 * time.Millisecond

// Writer writes. [admit.Gate] implements it.
type Writer interface {
	Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error)
}

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
	// Clock says when events have ended.
	Clock *steady.Clock
	// Commits tells of the commits of Store.
	Commits *notice.Store
	// Leases are taken for each portal and job, so that several processes on one store do not do the
	// same.
	Leases *lease.Holder
	// Sinks get the events of all portals by syslog, and with ControlPlane those of
	// [cloud.ControlPlaneLog].
	Sinks        []syslog.Target
	ControlPlane bool
	// Rest waits between attempts; [alarm.Rest] if it is nil.
	Rest func(context.Context, time.Duration) error
}

// Engine delivers the events of all portals, each portal's in order. One that is slow, or dead, holds
// up nobody else.
type Engine struct {
	Options

	mu sync.Mutex
	// busy has the portals at which somebody works.
	busy map[string]*worker
	// start begins work at a portal; nil unless Run works.
	start func(*worker)

	// tried are the portals whose webhooks have been sent something since the engine was made.
	tried map[string]bool
	// borne are, by portal, how large requests are to receivers to which they are not whole. A worker is gone when
	// something happens again, or somebody makes a job anew.
	borne map[string]borne

	sinks []*sink
	stats stats
	// began is when Run began, by [steady.Clock.Elapsed].
	began time.Duration
}

// New returns an engine. Run does the work.
func New(o Options) *Engine {
	if o.Rest == nil {
		o.Rest = alarm.Rest
	}
	e := &Engine{Options: o, busy: map[string]*worker{}, tried: map[string]bool{}, borne: map[string]borne{}}
	for _, to := range o.Sinks {
		e.sinks = append(e.sinks, newSink(e, to))
	}
	return e
}

// Run delivers until ctx ends. It returns nil then, and what is under way has ended.
func (e *Engine) Run(ctx context.Context) error {
	e.began = e.Clock.Elapsed()
	var workers sync.WaitGroup
	defer workers.Wait()
	defer e.begin(func(w *worker) { workers.Go(func() { w.run(ctx) }) })()
	workers.Go(func() { e.tidy(ctx) })
	workers.Go(func() {
		if !e.registered(ctx) {
			return
		}
		for _, s := range e.sinks {
			workers.Go(func() { s.run(ctx) })
		}
	})
	for {
		after, err := e.wakeAll(ctx)
		if err == nil {
			err = e.follow(ctx, after)
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

// begin lets work begin, and listens to commits; the returned function ends both.
func (e *Engine) begin(start func(*worker)) (end func()) {
	e.mu.Lock()
	e.start = start
	e.mu.Unlock()
	deaf := e.Commits.Listen(e.told)
	return func() {
		deaf()
		e.mu.Lock()
		defer e.mu.Unlock()
		e.start = nil
	}
}

// told wakes up whom a commit concerns, and says which rows it has made anew. Whoever writes cannot forget it.
func (e *Engine) told(c store.Commit) {
	for i := range c.Changes {
		if c.Changes[i].Op == store.Deleted {
			e.removed(c.Changes[i].Old)
		}
		if r := c.Changes[i].New; r != nil && r.Kind == cloud.Events && c.Changes[i].Op == store.Created {
			if event, ok := r.Spec.(*cloud.Event); ok && event.Outcome == audit.Test {
				e.ask(r.Scope)
			}
			e.wake(r.Scope, false)
			for _, s := range e.sinks {
				s.wake(r.Scope)
			}
		}
	}
}

// wakeAll looks at each portal, and returns the revision up to which it has looked.
func (e *Engine) wakeAll(ctx context.Context) (revision uint64, err error) {
	var portals []string
	err = e.Store.View(ctx, func(r store.Reader) error {
		rows, err := store.ListAll(r, cloud.Webhooks, store.Query{})
		for _, row := range rows {
			portals = append(portals, row.Name)
		}
		revision = r.Revision()
		return err
	})
	for _, portal := range portals {
		e.wake(portal, true)
	}
	return revision, err
}

// follow wakes up the portals whose settings change, whichever process has changed them, until the feed
// ends.
func (e *Engine) follow(ctx context.Context, after uint64) error {
	for events, err := range e.Store.Watch(ctx, after) {
		if err != nil {
			return err
		}
		for _, event := range events {
			switch event.Key.Kind {
			case cloud.Webhooks.Name, cloud.Replays.Name:
				e.wake(event.Key.Name, true)
			case cloud.Destinations.Name:
				if _, err := e.wakeAll(ctx); err != nil {
					return err
				}
			}
		}
	}
	return ctx.Err()
}

// wake starts a worker for a portal, or tells the one that is at work of an event or of settings.
func (e *Engine) wake(portal string, settings bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.start == nil {
		return
	}
	w := e.busy[portal]
	if w == nil {
		w = &worker{Engine: e, portal: portal, events: make(chan struct{}, 1), settings: make(chan struct{}, 1), live: whole, replayed: whole}
		e.busy[portal] = w
		e.start(w)
		return
	}
	changed := w.events
	if settings {
		changed = w.settings
	}
	select {
	case changed <- struct{}{}:
	default: // it knows already
	}
}

// ask has the receiver of a portal tried at once, also if it is left alone because it has failed: somebody tests it.
func (e *Engine) ask(portal string) {
	e.mu.Lock()
	if w := e.busy[portal]; w != nil {
		w.asked.Store(true)
	}
	e.mu.Unlock()
	e.wake(portal, true)
}

// idle ends the work at a portal unless there may be more of it, and reports whether it did.
func (e *Engine) idle(portal string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.busy[portal]
	if len(w.events)+len(w.settings) > 0 {
		return false
	}
	delete(e.busy, portal)
	return true
}
