package trail

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/audit/delivery"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/alarm"
)

// Options are what a trail works with.
type Options struct {
	Store store.Store
	// Writer writes the events of refusals.
	Writer delivery.Writer
	Log    *slog.Logger
	Now    func() time.Time
	// Organization is named in each event.
	Organization string
	// Rest waits; [alarm.Rest] if it is nil.
	Rest func(context.Context, time.Duration) error
}

// Trail makes events. It is safe for concurrent use.
type Trail struct {
	Options

	mu     sync.Mutex
	bounds *bounds
	// waiting are refusals that are not stored yet.
	waiting []audit.Event
	woken   chan struct{}
}

// New returns a trail. Run stores the refusals.
func New(o Options) *Trail {
	if o.Rest == nil {
		o.Rest = alarm.Rest
	}
	return &Trail{Options: o, bounds: newBounds(), woken: make(chan struct{}, 1)}
}

// event is an event of a request, or of what no request has caused.
func (t *Trail) event(e *httpkit.Entry, a *audit.Administration) audit.Event {
	out := audit.Event{Organization: t.Organization, Portal: cloud.ControlPlaneLog, Administration: a}
	if e.API == "" {
		return out
	}
	a.API = e.API
	out.Source, out.UserAgent, out.Request = e.Source, e.UserAgent, e.Method
	if e.Pattern != "" { // not the path, whose keys may be tokens
		out.Request += " " + e.Pattern
	}
	out.Trace, _ = e.Number()
	return out
}

// maxWaiting bounds the refusals that are not stored yet. They are in memory for [delivery.Window], or
// until the store can write again.
const maxWaiting = 256

// Refused notes a refused call. It never waits. Calls beyond the bounds are counted, and summed up by one
// event for many of them.
func (t *Trail) Refused(r httpkit.Refusal) {
	reason := r.Code
	if r.IssuerAway {
		reason = reasonIssuer
	}
	e := t.event(r.Entry, &audit.Administration{Class: audit.Refusal, Actor: r.Actor, Kind: r.Kind, Name: r.Name, Status: r.Status, Reason: reason, Count: 1})
	e.Time = t.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) >= maxWaiting || !t.bounds.admit(e.Source, e.Time) {
		t.bounds.sum(&e)
		return
	}
	t.waiting = append(t.waiting, e)
	select {
	case t.woken <- struct{}{}:
	default: // somebody knows already
	}
}

// Run stores refusals until ctx ends. It returns nil then, with nothing left that could be stored.
func (t *Trail) Run(ctx context.Context) error {
	sums := make(chan struct{})
	go func() {
		defer close(sums)
		for t.Rest(ctx, summing) == nil {
			select {
			case sums <- struct{}{}:
			case <-ctx.Done():
			}
		}
	}()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-sums:
			t.close(maxWaiting)
		case <-t.woken:
			_ = t.Rest(ctx, delivery.Window) // its end is seen
		}
		_ = t.flush(ctx) // it is tried again
	}
	for range sums { // until nobody sums up any more
	}
	t.end(ctx)
	return nil
}

// lastTime bounds what is stored at the end.
const lastTime = 2 * time.Second

// end stores all that is left, and says what of it is lost.
func (t *Trail) end(ctx context.Context) {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTime)
	defer cancel()
	_ = t.flush(last)    // what waits has another try
	t.close(math.MaxInt) // there is no later time for the sums
	err := t.flush(last)
	t.mu.Lock()
	defer t.mu.Unlock()
	calls := 0
	for i := range t.waiting {
		calls += t.waiting[i].Administration.Count
	}
	if calls > 0 {
		t.Log.Error("refused calls are lost for the audit log: they could not be stored before the end", "calls", calls, "error", err)
	}
}

// close makes the events of the calls that were only counted. They are counted on while so many wait.
func (t *Trail) close(most int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) >= most {
		return
	}
	for _, e := range t.bounds.close() {
		e.Organization = t.Organization
		t.waiting = append(t.waiting, e)
	}
}

// flush stores what waits, in one transaction. What cannot be stored waits for the next time. While nobody
// wants to know of refusals, they are forgotten, and cost no write.
func (t *Trail) flush(ctx context.Context) error {
	t.mu.Lock()
	events := t.waiting
	t.waiting = nil
	t.mu.Unlock()
	if len(events) == 0 {
		return nil
	}
	wanted := false
	err := t.Store.View(ctx, func(r store.Reader) (err error) {
		wanted, err = delivery.Keeps(r)
		return err
	})
	if err == nil && wanted {
		_, err = t.Writer.Write(ctx, model.Credential, func(tx store.Tx) error {
			return delivery.PutAdministration(tx, func() ([]audit.Event, error) { return events, nil })
		})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil:
		t.waiting = append(events, t.waiting...)
		if ctx.Err() == nil { // otherwise they have a last try, or had it
			t.Log.Error("refused calls are not in the audit log yet", "calls", len(events), "error", err)
		}
	case !wanted:
		t.bounds.forget()
	}
	return err
}
