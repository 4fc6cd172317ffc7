package delivery

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/lease"
	"github.com/meshgate/meshgate/controlplane/store"
)

// worker delivers the events of one portal while there are any. Only its goroutine uses it, but for the
// channels and what says so.
type worker struct {
	*Engine
	portal string
	// events and settings have an entry when there may be something new of them.
	events, settings chan struct{}

	lease *lease.Lease
	// result is an outcome that is not stored yet; nil if there is none.
	result *conclusion
	// live and replayed are how many events the next request has at most, of what happens and of what is
	// replayed.
	live, replayed sizing
	// receiver is a job without events: to whom all that was found out about requests applies.
	receiver *work
	// replaying says that there was a replay job at the last look.
	replaying bool
	// full says that nobody needs to wait for more: the last batch was not all that there was, or a request of a
	// replay came after it, and what has happened meanwhile is together.
	full bool
	// refused is the name of the last event in requests that were refused for what they are, vouched
	// that of the last event of these after whose refusal the receiver has taken others.
	refused, vouched string
	// unwanted are the events of a replay that were refused alone since one was taken.
	unwanted refusals
	// failures counts the deliveries that have failed in a row; said is how long the receiver wants
	// to be left alone after the last of them, and failing what it was about.
	failures int
	said     time.Duration
	failing  *work
	// asked says that somebody tests the receiver since the last delivery has begun. Others set it.
	asked atomic.Bool
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
	// moved is a delivery that was broken off because its settings changed, or its lease was lost.
	moved
)

// linger is how long a worker stays that has nothing to do. It keeps its lease, which would cost a write
// or two with each event.
const linger = 10 * time.Second

// run delivers until there is nothing left. A batch whose attempts have all failed stays, and is tried
// again after a pause.
func (w *worker) run(ctx context.Context) {
	defer w.leave(ctx)
	troubles := 0
	for ctx.Err() == nil {
		got, err := w.turn(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			w.Log.Error("an audit log cannot be delivered now, and will be", "portal", w.portal, "error", err)
			if errors.Is(err, errNoDestination) { // there is nobody to be tried
				w.hasTried(w.portal)
			}
			w.rest(ctx, backOff(troubles), false)
			troubles++
			continue
		case got == failed:
			w.pause(ctx)
		case got == nothing:
			if !w.rest(ctx, linger, true) && w.idle(w.portal) {
				return
			}
		}
		troubles = 0
	}
}

// turn delivers one batch of what happens, and one of what is replayed: neither holds up the other for
// longer. Both are of one worker, so that a receiver never has two requests of one portal at a time.
// While a receiver fails, nothing is replayed to it.
func (w *worker) turn(ctx context.Context) (outcome, error) {
	if err := w.settle(ctx); err != nil {
		return nothing, err
	}
	got, err := w.once(ctx)
	if err != nil || got == failed || got == moved || !w.replaying {
		return got, err
	}
	replayed, err := w.replay(ctx)
	if err != nil || replayed != nothing {
		return replayed, err
	}
	return got, nil
}

// once delivers one batch.
func (w *worker) once(ctx context.Context) (outcome, error) {
	// Who asks from here on may have put what is looked at below.
	w.asked.Store(false)
	if !w.holds() { // nobody needs a lease for nothing
		if job, err := w.look(ctx, 1); err != nil || job == nil {
			return nothing, err
		}
	}
	held, err := w.held(ctx)
	if err != nil {
		return nothing, err
	}
	if !w.full && w.Rest(ctx, Window) != nil {
		return nothing, nil
	}
	// Whoever had the lease before may have delivered meanwhile.
	job, err := w.next(ctx)
	w.full = job != nil && len(job.names) >= w.live.most
	if err != nil || job == nil {
		return nothing, err
	}
	if job.lost != "" {
		return went, w.mourn(ctx, job)
	}
	got, err := w.deliver(held, job)
	if got != moved {
		w.hasTried(w.portal)
	}
	return got, err
}

// next reads the next batch. It has as many events as its receiver may get, which may be another one now.
func (w *worker) next(ctx context.Context) (*work, error) {
	for {
		most := w.live.most
		job, err := w.look(ctx, most)
		if err != nil || job == nil {
			return nil, err
		}
		if w.meet(job); w.live.most == most {
			return job, nil
		}
	}
}

// look reads what there is to deliver, so many events at most, and whether there is a replay job. If it cannot
// be read how far the log is, that is made anew.
func (w *worker) look(ctx context.Context, most int) (job *work, err error) {
	if job, err = w.glance(ctx, most); !errors.Is(err, store.ErrUnreadable) {
		return job, err
	}
	if err := w.mend(ctx, w.portal); err != nil {
		return nil, err
	}
	return w.glance(ctx, most)
}

func (w *worker) glance(ctx context.Context, most int) (job *work, err error) {
	err = w.Store.View(ctx, func(r store.Reader) error {
		replay, err := specOf[cloud.Replay](r, cloud.Replays, w.portal)
		if err != nil {
			return err
		}
		w.replaying = replay != nil && replay.Open()
		job, err = read(r, w.portal, most)
		return err
	})
	return job, err
}

// unchanged reports whether a job still goes to the same receiver.
func (w *worker) unchanged(ctx context.Context, job *work) bool {
	var now *work
	err := w.Store.View(ctx, func(r store.Reader) (err error) {
		now, err = setting(r, w.portal)
		return err
	})
	return err == nil && job.same(now)
}

// holds reports whether the worker has the lease of the portal.
func (w *worker) holds() bool { return w.lease != nil && w.lease.Context().Err() == nil }

// The beginnings of the names of leases, of portals and of syslog sinks.
const (
	hookLease = "audit-log-webhook/"
	sinkLease = "audit-log-syslog/"
)

// held returns a context that ends with the lease of the portal, and takes the lease before if need be.
func (w *worker) held(ctx context.Context) (context.Context, error) {
	if w.holds() {
		return w.lease.Context(), nil
	}
	taken, err := w.Leases.Take(ctx, hookLease+w.portal)
	if err != nil {
		return nil, err
	}
	w.lease = taken
	return taken.Context(), nil
}

// leave ends the work of a worker. An outcome that could not be stored before has a last try.
func (w *worker) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if w.result != nil && w.lease != nil {
		if err := w.conclude(ctx); err != nil {
			w.Log.Error("what became of a part of an audit log is not stored: it may be delivered once more", "portal", w.portal, "error", err)
		}
	}
	if w.lease != nil {
		w.lease.Release(ctx)
		w.lease = nil
	}
}

// leaveTime bounds what a worker does at its end.
const leaveTime = 2 * time.Second

// wait waits for so long. It returns false if the settings of a job change meanwhile, or ctx ends; new
// events change nothing.
func (w *worker) wait(ctx context.Context, wait time.Duration, unchanged func(context.Context) bool) bool {
	for until := w.Now().Add(wait); ; {
		left := until.Sub(w.Now())
		if left <= 0 {
			return ctx.Err() == nil
		}
		w.rest(ctx, left, false)
		if ctx.Err() != nil || !unchanged(ctx) {
			return false
		}
	}
}

// pause waits after a delivery that has failed. A receiver that is down is not asked again with each new
// event, nor with each write that leaves its settings as they are; other settings end the pause, and so does a
// test, also during the attempts.
func (w *worker) pause(ctx context.Context) {
	wait := pauseAfter(w.failures, w.said)
	w.failures++
	job := w.failing
	if w.asked.Load() || !w.wait(ctx, wait, func(ctx context.Context) bool { return !w.asked.Load() && w.unchanged(ctx, job) }) {
		w.failures = 0
	}
}

// rest waits until settings may have changed, or, if events count, there may be new ones, or the time is
// over. It reports whether it was woken up.
func (w *worker) rest(ctx context.Context, wait time.Duration, events bool) (woken bool) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	defer func() { <-done }()
	defer cancel()
	go func() {
		defer close(done)
		defer cancel()
		_ = w.Rest(ctx, wait) // it says that ctx has ended, which is seen
	}()
	happened := w.events
	if !events {
		happened = nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-w.settings:
	case <-happened:
	}
	return true
}
