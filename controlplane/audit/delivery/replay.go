package delivery

import (
	"context"
	"time"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// rerun is a batch of a replay job.
type rerun struct {
	work
	job cloud.Replay
	// last is the name of the last event that was looked at; empty if there is none left.
	last string
}

// replay delivers one batch of the replay job of the portal, if it has one.
func (w *worker) replay(ctx context.Context) (outcome, error) {
	batch, err := w.lookBack(ctx, maxBatch) // also if requests are small: most may be outside of the span
	if err != nil || batch == nil {
		return nothing, err
	}
	w.meet(&batch.work)
	held, err := w.held(ctx)
	if err != nil {
		return nothing, err
	}
	if batch.last == "" {
		return went, w.advance(ctx, batch, "", cloud.ReplayCompleted)
	}
	if len(batch.events) == 0 {
		return went, w.advance(ctx, batch, batch.last, cloud.ReplayRunning)
	}
	return w.redeliver(held, batch)
}

// lookBack reads the next batch of the replay job; nil if there is none, or nobody to deliver it to.
func (w *worker) lookBack(ctx context.Context, most int) (batch *rerun, err error) {
	err = w.Store.View(ctx, func(r store.Reader) error {
		batch, err = readBack(r, w.portal, most)
		return err
	})
	return batch, err
}

func readBack(r store.Reader, portal string, most int) (*rerun, error) {
	res, err := r.Get(cloud.Replays, "", portal)
	if fault.Is(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // nil is none
	}
	if err != nil {
		return nil, err
	}
	batch := &rerun{job: *res.Spec.(*cloud.Replay)}
	if !batch.job.Open() {
		return nil, nil //nolint:nilnil // nil is none
	}
	w, err := setting(r, portal)
	if err != nil || w == nil || !w.hook.Enabled {
		return nil, err
	}
	batch.work = *w
	return batch, batch.read(r, portal, most)
}

// read reads the events. Those outside of the span, and those that cannot be read, are passed over.
func (b *rerun) read(r store.Reader, portal string, most int) error {
	all := work{hooked: true}
	err := all.fill(r, portal, b.job.Cursor, b.job.Until, most)
	b.names = all.names
	if len(all.names) > 0 {
		b.last = all.names[len(all.names)-1]
	}
	for i := range all.events {
		if at := all.events[i].Time.UnixMilli(); at >= b.job.StartAt && at <= b.job.EndAt {
			b.events, b.at = append(b.events, all.events[i]), append(b.at, all.at[i])
		}
	}
	return err
}

// refusals are the events that a receiver has refused alone, one after the other, while a replay job went on.
type refusals struct {
	// job is the number of the job.
	job string
	n   int
}

// more counts one more of a job, and reports whether the receiver refuses everything, as one whose own settings
// are wrong does: so many in a row are not refused for what they are.
func (r *refusals) more(job string) (everything bool) {
	if r.job != job {
		*r = refusals{job: job}
	}
	r.n++
	return r.n > maxSingles
}

// redeliver makes all attempts to deliver a batch. A job has failed if a single event fails, or a batch for a reason
// that has nothing to do with its size: whoever made it sees that and can make it anew. No job fails because more was
// tried than its receiver bears: after that comes a single event. An event that is refused alone is passed over:
// others are not kept from coming again by it. What is only a try of the limit has one attempt if that fails at what
// may be the size: what happens meanwhile waits for it, and nothing is lost.
func (w *worker) redeliver(ctx context.Context, batch *rerun) (outcome, error) {
	if batch.job.Status != cloud.ReplayRunning {
		if err := w.advance(ctx, batch, batch.job.Cursor, cloud.ReplayRunning); err != nil {
			return nothing, err
		}
		w.replayed.patience = minPatience // whoever makes a job may have mended the receiver
	}
	r, n, at, got := w.try(ctx, &batch.work, batch.events[:min(w.replayed.most, len(batch.events))], w.replayed.limit, func(ctx context.Context, _ *work) bool { return w.stillReplays(ctx, batch) })
	if got != went {
		return got, nil
	}
	w.full = true
	defer w.noteBorne()
	c := conclusion{r: r, at: at, tried: true, ended: true, step: batch.step(batch.upTo(n), cloud.ReplayRunning)}
	switch {
	case n > 1 && (r.unwanted() || r.heavy()):
		return w.lessen(ctx, batch, r, n, at), nil
	case r.delivered():
		c.delivered, w.unwanted = n, refusals{}
		w.replayed.grow(n)
	case r.unwanted() && !w.unwanted.more(batch.job.Number):
		c.ended = false
	default:
		c.step, w.unwanted = batch.step(batch.job.Cursor, cloud.ReplayFailed), refusals{}
		w.replayed.shrink(&r, n)
	}
	return went, w.end(ctx, &batch.work, c)
}

// lessen makes the next request of a replay smaller than one of n events that may have failed for that. A receiver
// that says when to ask again is left alone so long before.
func (w *worker) lessen(ctx context.Context, batch *rerun, r result, n int, at time.Time) outcome {
	if w.status(ctx, &batch.work, r, at); r.unwanted() {
		w.replayed.halve(n)
		return went
	}
	w.replayed.shrink(&r, n)
	// As in a pause, a test is not kept waiting.
	goesOn := func(ctx context.Context) bool { return !w.asked.Load() && w.stillReplays(ctx, batch) }
	if wait, said := r.asked(w.Now()); said && (w.asked.Load() || !w.wait(ctx, wait, goesOn)) {
		return moved
	}
	return went
}

// stillReplays reports whether a batch still is of the replay job of the portal, and goes to the same
// receiver.
func (w *worker) stillReplays(ctx context.Context, batch *rerun) bool {
	now, err := w.lookBack(ctx, 1)
	return err == nil && now != nil && now.job.Number == batch.job.Number && batch.same(&now.work)
}

// step is how far a replay job is.
type step struct {
	// number is that of the job.
	number         string
	cursor, status string
}

// step is how far the job of a batch is now.
func (b *rerun) step(cursor, status string) *step { return &step{b.job.Number, cursor, status} }

// advance stores how far the job of a batch is, where nothing was sent.
func (w *worker) advance(ctx context.Context, batch *rerun, cursor, status string) error {
	return w.end(ctx, &batch.work, conclusion{step: batch.step(cursor, status)})
}

// store stores how far a job is, in a transaction: that of what became of its batch, because a process that ends
// between two would send the batch again. A job that was replaced or removed meanwhile is left alone.
func (s *step) store(tx store.Tx, portal string) error {
	res, _, err := rowOf(tx, cloud.Replays, "", portal)
	if err != nil || res == nil {
		return err
	}
	next := *res.Spec.(*cloud.Replay)
	if next.Number != s.number {
		return nil
	}
	next.Status = s.status
	if s.cursor != "" {
		next.Cursor = s.cursor
	}
	_, err = tx.Update(&model.Resource{Kind: cloud.Replays, Name: portal, Spec: &next}, res.Version)
	return err
}

// ReplayRequest begins a replay job of the kept events of a span in a transaction, and wakes up the
// delivery. The caller has checked the span.
func ReplayRequest(tx store.Tx, portal, number string, start, end time.Time) (*model.Resource, error) {
	job := &cloud.Replay{StartAt: start.UnixMilli(), EndAt: end.UnixMilli(), Status: cloud.ReplayAccepted, Number: number}
	position, err := positionIn(tx, portal)
	if err != nil {
		return nil, err
	}
	if position != nil {
		job.Until = cloud.EventName(portal, position.Spec.(*cloud.Position).Last)
	}
	res := &model.Resource{Kind: cloud.Replays, Name: portal, Spec: job}
	op := store.Updated
	stored, _, err := rowOf(tx, cloud.Replays, "", portal)
	if err != nil {
		return nil, err
	}
	if stored == nil {
		op = store.Created
		res, err = tx.Create(res)
	} else {
		res, err = tx.Update(res, 0)
	}
	if err == nil {
		tx.Announce(res.Key(), op)
	}
	return res, err
}
