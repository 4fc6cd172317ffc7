package delivery

import (
	"context"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
)

// maxSingles is how many events in a row a receiver may refuse for what they are before it counts as one
// that refuses everything.
const maxSingles = 8

// deliver makes all attempts to deliver a batch.
//
// A batch that is refused for what it is, and not for who sends it, is halved until the event is found
// that is refused alone. That one is given up if the receiver has taken others after it has refused it for
// the first time: receivers that refuse everything, because a setting of theirs is wrong, answer the
// same, and nothing may be given up for that.
func (w *worker) deliver(ctx context.Context, job *work) (outcome, error) {
	if len(job.events) == 0 {
		return went, w.end(ctx, job, conclusion{cursor: job.upTo(0)})
	}
	r, n, at, got := w.try(ctx, job, job.events[:min(w.live.most, len(job.events))], none, w.unchanged)
	switch {
	case got != went:
		return got, nil
	case r.delivered():
		return went, w.taken(ctx, job, r, at, 0, n)
	case !r.unwanted():
		w.live.shrink(&r, n)
		w.noteBorne()
		return failed, w.fail(ctx, job, r, at)
	case n > 1:
		w.live.halve(n)
		w.refused = max(w.refused, job.name(n-1))
		w.status(ctx, job, r, at)
		return went, nil
	}
	return w.single(ctx, job, r, at)
}

// single decides about the first event of a job, which was refused alone. If the receiver has taken
// nothing since, the next ones are tried one by one.
func (w *worker) single(ctx context.Context, job *work, r result, at time.Time) (outcome, error) {
	if job.name(0) <= w.vouched {
		// The next one needs another proof, because a receiver may begin to refuse everything now.
		w.vouched, w.refused = "", ""
		return went, w.end(ctx, job, conclusion{r: r, at: at, cursor: job.upTo(1), tried: true, givenUp: 1})
	}
	first := r
	for i := 1; i <= maxSingles; i++ {
		if i >= len(job.events) {
			more, err := w.look(ctx, min(maxSingles+1, maxBatch))
			if err != nil || !job.same(more) {
				break
			}
			if more.lost != "" || len(more.events) == 0 || more.name(0) != job.name(0) {
				return moved, nil // the first ones are gone: what comes next is not what would be given up
			}
			if len(more.events) <= i {
				break // there is none yet
			}
			job = more
		}
		r, _, at, got := w.try(ctx, job, job.events[i:i+1], none, w.unchanged)
		switch {
		case got != went:
			return got, nil
		case r.delivered():
			w.refused, w.vouched = "", ""
			return went, w.taken(ctx, job, r, at, i, i+1)
		case !r.unwanted():
			return failed, w.fail(ctx, job, r, at)
		}
	}
	return failed, w.fail(ctx, job, first, at)
}

// try makes all attempts to deliver the first n of some events, as many as fit into a request. It returns [went]
// with the last result, whatever that is, and another outcome if it was broken off. Each attempt signs anew: a key
// may be withdrawn between two, and what it signed counts for nothing then.
//
// At so many events as limit, or more, it makes no other attempt after one that may have failed at how much was sent.
func (w *worker) try(ctx context.Context, job *work, events []audit.Event, limit int, unchanged func(context.Context, *work) bool) (r result, n int, began time.Time, got outcome) {
	for retries, strained := 0, false; ; retries++ {
		var body []byte
		body, n = w.encode(events, job.destination.LogFormat)
		began = w.Now()
		sending, sent := w.finishing(ctx)
		r = w.attempt(sending, &job.destination, body)
		sent()
		r.strained, strained = strained, strained || r.heavy()
		if ctx.Err() != nil && r.status == 0 {
			return r, n, began, moved // it was broken off, which says nothing of the receiver
		}
		wait, again := r.again(retries, w.Now())
		if !again || n >= limit && r.heavy() {
			return r, n, began, went
		}
		w.status(ctx, job, r, began)
		if !w.wait(ctx, wait, func(ctx context.Context) bool { return unchanged(ctx, job) }) {
			return r, n, began, moved
		}
	}
}

// finishTime is how long the answer to an attempt is waited for that is under way when the process is to end:
// what a receiver has taken would otherwise be sent once more by the next process.
const finishTime = 5 * time.Second

// finishing returns the context of an attempt, which outlives ctx by [finishTime] as long as the lease lasts. The
// returned function ends it.
func (w *worker) finishing(ctx context.Context) (context.Context, func()) {
	late, cancel := context.WithCancel(w.lease.Lasting())
	stop := context.AfterFunc(ctx, func() {
		defer cancel()
		_ = w.Rest(late, finishTime) // however it ends
	})
	return late, func() { stop(); cancel() }
}

// taken notes that the receiver has taken events of a job, from one to before another, and those before
// them are given up.
func (w *worker) taken(ctx context.Context, job *work, r result, at time.Time, from, to int) error {
	if w.refused != "" {
		w.vouched = w.refused
	}
	w.live.grow(to - from)
	w.noteBorne()
	w.failures = 0
	return w.end(ctx, job, conclusion{r: r, at: at, cursor: job.upTo(to), tried: true, ended: true, delivered: to - from, givenUp: from})
}

// fail notes that a delivery has failed: its events stay.
func (w *worker) fail(ctx context.Context, job *work, r result, at time.Time) error {
	w.failing, w.said = job, 0
	if wait, said := r.said(w.Now()); said {
		w.said = wait
	}
	return w.end(ctx, job, conclusion{r: r, at: at, tried: true, ended: true})
}

// status notes an attempt after which there are others. That it cannot be stored ends nothing.
func (w *worker) status(ctx context.Context, job *work, r result, at time.Time) {
	c := &conclusion{job: job, r: r, at: at, tried: true}
	if err := w.write(context.WithoutCancel(ctx), c); err != nil {
		w.Log.Warn("the status of a webhook cannot be stored", "portal", w.portal, "error", err)
	}
}

// end stores the outcome of a delivery. One that cannot be stored now is kept in memory, and stored
// before anything else is sent: what a receiver has taken is not to be sent again because our disk is
// full.
func (w *worker) end(ctx context.Context, job *work, c conclusion) error {
	c.job = job
	c.unreadable = job.unreadable(c.cursor)
	w.result = &c
	return w.settle(ctx)
}

// mourn moves the cursor to the first event that is there: those before it have ended or were dropped
// before anybody got them.
func (w *worker) mourn(ctx context.Context, job *work) error {
	if _, err := w.held(ctx); err != nil {
		return err
	}
	first := cloud.EventNumber(job.lost)
	w.result = &conclusion{job: job, cursor: cloud.EventName(w.portal, first-1), lost: first - 1 - cloud.EventNumber(job.progress.Cursor)}
	return w.settle(ctx)
}
