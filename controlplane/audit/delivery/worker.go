package delivery

import (
	"context"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// worker delivers the events of one portal while there are any.
type worker struct {
	*Engine
	portal string
	// changed has an entry when there may be something new: an event, or a setting.
	changed chan struct{}
}

// outcome is what a delivery came to.
type outcome int

const (
	// nothing is there to deliver.
	nothing outcome = iota
	// went is a batch that is done with: there may be another one.
	went
	// failed is a batch that stays the first of its portal.
	failed
	// moved is a delivery that was broken off because its settings changed.
	moved
)

// run delivers until there is nothing left. A batch whose attempts have all failed stays, and is tried
// again when something new happens, or after a while.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		got, err := w.turn(ctx)
		wait := time.Duration(0)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.Log.Error("an audit log cannot be delivered now, and will be", "portal", w.portal, "error", err)
			wait = time.Second
		case got == failed:
			wait = probe
		case got == nothing && w.idle(w.portal):
			return
		}
		if wait > 0 {
			w.rest(ctx, wait)
		}
	}
}

// rest waits until something new happens or the time is over.
func (w *worker) rest(ctx context.Context, wait time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	defer func() { <-done }()
	defer cancel()
	go func() {
		defer close(done)
		defer cancel()
		_ = w.Rest(ctx, wait) // it says that ctx has ended, which is seen
	}()
	select {
	case <-ctx.Done():
	case <-w.changed:
	}
}

// once delivers one batch.
func (w *worker) once(ctx context.Context) (outcome, error) {
	job, err := w.look(ctx)
	if err != nil || job == nil {
		return nothing, err
	}
	if len(job.names) < maxBatch {
		if w.Rest(ctx, Window) != nil {
			return nothing, nil
		}
		if job, err = w.look(ctx); err != nil || job == nil {
			return nothing, err
		}
	}
	return w.deliver(ctx, job)
}

// look reads what there is to deliver.
func (w *worker) look(ctx context.Context) (job *work, err error) {
	err = w.Store.View(ctx, func(r store.Reader) error {
		job, err = read(r, w.portal)
		return err
	})
	return job, err
}

// deliver makes all attempts to deliver a batch.
func (w *worker) deliver(ctx context.Context, job *work) (outcome, error) {
	body, n, err := w.encode(job.events, job.destination.LogFormat)
	if err != nil {
		return nothing, err
	}
	last := job.names[len(job.names)-1]
	if n < len(job.events) {
		last = job.names[job.at[n-1]]
	}
	for retries := 0; ; retries++ {
		began := w.Now()
		r := result{status: 204} // nothing of a batch of events that cannot be read is sent
		if n > 0 {
			r = w.attempt(ctx, job.destination, body)
		}
		if ctx.Err() != nil && r.status == 0 {
			return nothing, nil // it was broken off
		}
		wait, again := r.again(retries, w.Now())
		if err := w.note(ctx, job, r, began, last, !again); err != nil {
			return nothing, err
		}
		switch {
		case r.delivered() || !again && r.unwanted():
			return went, nil
		case !again:
			return failed, nil
		}
		if !w.wait(ctx, job, wait) {
			return moved, nil
		}
	}
}

// wait waits between two attempts. It returns false if the settings change meanwhile, or ctx ends; new
// events change nothing.
func (w *worker) wait(ctx context.Context, job *work, wait time.Duration) bool {
	for until := w.Now().Add(wait); ; {
		left := until.Sub(w.Now())
		if left <= 0 {
			return ctx.Err() == nil
		}
		w.rest(ctx, left)
		now, err := w.look(ctx)
		if err != nil || now == nil || *now.hook != *job.hook || *now.destination != *job.destination || now.progress.Cursor != job.progress.Cursor {
			return false
		}
	}
}

// note stores what an attempt came to.
func (w *worker) note(ctx context.Context, job *work, r result, at time.Time, last string, ended bool) error {
	next := job.progress
	next.AttemptedAt, next.Code, next.Message = at.UnixMilli(), r.status, r.failed
	if ended {
		next.Failed = !r.delivered()
		if r.delivered() || r.unwanted() {
			next.Cursor = last
		}
	}
	job.progress = next
	// What a receiver has taken is not to be sent again because this process ends.
	_, err := w.Writer.Write(context.WithoutCancel(ctx), model.Credential, func(tx store.Tx) error {
		return w.store(tx, next)
	})
	return err
}
