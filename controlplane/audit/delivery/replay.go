package delivery

import (
	"context"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// turn delivers one batch of what happens, and one of what is replayed: neither holds up the other for
// longer. Both are of one worker, so that a receiver never has two requests of one portal at a time.
// While a receiver fails, nothing is replayed to it.
func (w *worker) turn(ctx context.Context) (outcome, error) {
	got, err := w.once(ctx)
	if err != nil || got == failed || got == moved {
		return got, err
	}
	replayed, err := w.replay(ctx)
	if err != nil || replayed != nothing {
		return replayed, err
	}
	return got, nil
}

// rerun is a batch of a replay job.
type rerun struct {
	work
	job cloud.Replay
	// last is the name of the last event that was looked at; empty if there is none left.
	last string
}

// replay delivers one batch of the replay job of the portal, if it has one.
func (w *worker) replay(ctx context.Context) (outcome, error) {
	batch, err := w.lookBack(ctx)
	if err != nil || batch == nil {
		return nothing, err
	}
	if batch.last == "" {
		return went, w.advance(ctx, batch, "", cloud.ReplayCompleted)
	}
	if len(batch.events) == 0 {
		return went, w.advance(ctx, batch, batch.last, cloud.ReplayRunning)
	}
	return w.redeliver(ctx, batch)
}

// lookBack reads the next batch of the replay job; nil if there is none, or nobody to deliver it to.
func (w *worker) lookBack(ctx context.Context) (batch *rerun, err error) {
	err = w.Store.View(ctx, func(r store.Reader) error {
		batch, err = readBack(r, w.portal)
		return err
	})
	return batch, err
}

func readBack(r store.Reader, portal string) (*rerun, error) {
	res, err := r.Get(cloud.Replays, "", portal)
	if fault.Is(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // nil is none
	}
	if err != nil {
		return nil, err
	}
	batch := &rerun{job: *res.Spec.(*cloud.Replay)}
	hook, err := hookOf(r, portal)
	if err != nil || !batch.job.Open() || hook == nil || !hook.Enabled || hook.Destination == "" {
		return nil, err
	}
	progress, err := progressOf(r, portal)
	if err != nil {
		return nil, err
	}
	to, err := r.Get(cloud.Destinations, "", hook.Destination)
	if err != nil {
		return nil, err
	}
	batch.hook, batch.destination, batch.progress = hook, to.Spec.(*cloud.Destination), *progress
	if progress.Destination != hook.Destination {
		batch.progress = cloud.Delivery{Destination: hook.Destination, Cursor: progress.Cursor}
	}
	return batch, batch.fill(r, portal)
}

// fill reads the events. Those outside of the span, and those that cannot be read, are passed over.
func (b *rerun) fill(r store.Reader, portal string) error {
	after := b.job.Cursor
	if after == "" {
		after = cloud.EventName(portal, 0)
	}
	rows, err := r.List(cloud.Events, store.Query{After: after, Limit: maxBatch})
	for _, row := range rows {
		if !strings.HasPrefix(row.Name, portal+".") || row.Name > b.job.Until {
			break
		}
		b.names, b.last = append(b.names, row.Name), row.Name
		event, ok := row.Spec.(*cloud.Event)
		if !ok || event == nil {
			continue
		}
		if at := event.Time.UnixMilli(); at >= b.job.StartAt && at <= b.job.EndAt {
			b.events, b.at = append(b.events, event.Event), append(b.at, len(b.names)-1)
		}
	}
	return err
}

// redeliver makes all attempts to deliver a batch. A job whose batch fails has failed: whoever made it
// sees that and can make it anew.
func (w *worker) redeliver(ctx context.Context, batch *rerun) (outcome, error) {
	body, n, err := w.encode(batch.events, batch.destination.LogFormat)
	if err != nil {
		return nothing, err
	}
	last := batch.last
	if n < len(batch.events) {
		last = batch.names[batch.at[n-1]]
	}
	if batch.job.Status != cloud.ReplayRunning {
		if err := w.advance(ctx, batch, batch.job.Cursor, cloud.ReplayRunning); err != nil {
			return nothing, err
		}
	}
	for retries := 0; ; retries++ {
		began := w.Now()
		r := w.attempt(ctx, batch.destination, body)
		if ctx.Err() != nil && r.status == 0 {
			return nothing, nil // it was broken off
		}
		wait, again := r.again(retries, w.Now())
		// What happens now is at the same event as before.
		if err := w.note(ctx, &batch.work, r, began, batch.progress.Cursor, !again); err != nil {
			return nothing, err
		}
		switch {
		case r.delivered() || !again && r.unwanted():
			return went, w.advance(ctx, batch, last, cloud.ReplayRunning)
		case !again:
			return went, w.advance(ctx, batch, batch.job.Cursor, cloud.ReplayFailed)
		}
		if !w.waitBack(ctx, batch, wait) {
			return moved, nil
		}
	}
}

// waitBack waits between two attempts, as [worker.wait] does.
func (w *worker) waitBack(ctx context.Context, batch *rerun, wait time.Duration) bool {
	for until := w.Now().Add(wait); ; {
		left := until.Sub(w.Now())
		if left <= 0 {
			return ctx.Err() == nil
		}
		w.rest(ctx, left)
		now, err := w.lookBack(ctx)
		if err != nil || now == nil || now.job.Number != batch.job.Number || *now.hook != *batch.hook || *now.destination != *batch.destination {
			return false
		}
	}
}

// advance stores how far a job is. A job that was replaced or removed meanwhile is left alone.
func (w *worker) advance(ctx context.Context, batch *rerun, cursor, status string) error {
	_, err := w.Writer.Write(context.WithoutCancel(ctx), model.Credential, func(tx store.Tx) error {
		res, err := tx.Get(cloud.Replays, "", w.portal)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		next := *res.Spec.(*cloud.Replay)
		if next.Number != batch.job.Number {
			return nil
		}
		next.Status = status
		if cursor != "" {
			next.Cursor = cursor
		}
		_, err = tx.Update(&model.Resource{Kind: cloud.Replays, Name: w.portal, Spec: &next}, res.Version)
		return err
	})
	return err
}

// ReplayRequest begins a replay job of the kept events of a span in a transaction, and wakes up the
// delivery. The caller has checked the span.
func ReplayRequest(tx store.Tx, portal, number string, start, end time.Time) (*model.Resource, error) {
	job := &cloud.Replay{StartAt: start.UnixMilli(), EndAt: end.UnixMilli(), Status: cloud.ReplayAccepted, Number: number}
	position, err := tx.Get(cloud.Positions, "", portal)
	switch {
	case err == nil:
		job.Until = cloud.EventName(portal, position.Spec.(*cloud.Position).Last)
	case !fault.Is(err, fault.NotFound):
		return nil, err
	}
	res := &model.Resource{Kind: cloud.Replays, Name: portal, Spec: job}
	op := store.Updated
	_, err = tx.Get(cloud.Replays, "", portal)
	if fault.Is(err, fault.NotFound) {
		op = store.Created
		res, err = tx.Create(res)
	} else if err == nil {
		res, err = tx.Update(res, 0)
	}
	if err == nil {
		tx.Announce(res.Key(), op)
	}
	return res, err
}
