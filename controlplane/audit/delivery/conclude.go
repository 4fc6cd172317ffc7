package delivery

import (
	"context"
	"time"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// conclusion is an outcome that is to be stored.
type conclusion struct {
	job *work
	// r is the last result, of an attempt that began at a time, if anything was tried.
	r     result
	at    time.Time
	tried bool
	// ended says that the delivery has succeeded or failed as a whole.
	ended bool
	// cursor is the name up to which all events are done with; empty if that is as before.
	cursor string
	// What became of these events.
	delivered, givenUp, unreadable int
	lost                           uint64
	// step is how far the replay job is of which the batch is; nil if it is of none.
	step *step
	// reason is why events are lost; it is found when the cursor moves.
	reason lossReason
	// next is the version of what is known of the delivery after the write; 0 if nothing was written.
	next uint64
	// before and after are whether the webhook was and is inactive, if that was written.
	before, after, written bool
}

// settle stores the outcome that is not stored yet, however long that takes. What was found out is
// forgotten by nothing but the end of ctx, at which it has a last try.
func (w *worker) settle(ctx context.Context) error {
	for tries := 0; w.result != nil; tries++ {
		// A lease that is over may still be ours: then nobody else has done anything.
		var err error
		if ctx.Err() == nil {
			_, err = w.held(ctx)
		}
		if err == nil {
			err = w.conclude(context.WithoutCancel(ctx))
		}
		if err == nil {
			return nil
		}
		if tries == 0 {
			w.Log.Error("the progress of an audit log cannot be stored, which is tried again before anything else is sent", "portal", w.portal, "error", err)
		}
		if w.Rest(ctx, backOff(tries)) != nil {
			return err
		}
	}
	return nil
}

// conclude stores the outcome that is not stored yet, and counts it.
func (w *worker) conclude(ctx context.Context) error {
	c := w.result
	if err := w.write(ctx, c); err != nil {
		return err
	}
	w.result = nil
	w.tell(c)
	return nil
}

// tell counts an outcome and says what people must know of it.
func (w *worker) tell(c *conclusion) {
	log := w.Log.With("portal", w.portal)
	w.stats.delivered.Add(uint64(c.delivered)) //nolint:gosec // a number of events of a batch
	if c.givenUp > 0 {
		w.stats.givenUp.Add(uint64(c.givenUp))
		log.Error("events of an audit log are given up: the receiver refuses them and takes others", "events", c.givenUp, "status", c.r.status,
			"first", c.job.name(0), "kept", cloud.KeptEvents.String())
	}
	if c.unreadable > 0 {
		w.stats.unreadable.Add(uint64(c.unreadable))
		log.Error("events of an audit log cannot be read and are passed over", "events", c.unreadable, "before", c.cursor)
	}
	if c.lost > 0 {
		w.lose(c.lost, c.reason, w.portal)
	}
	if c.written && c.before != c.after {
		w.turned(c.after, w.portal, c.job.destination.Name, c.r.status, c.r.failed)
	}
}

// write stores an outcome in a transaction that only the holder of the lease can make. The cursor moves
// only forward, and only while there is a webhook. All else counts only while the webhook, its
// destination and what is known of the delivery are those of the job: it says nothing of another receiver.
func (w *worker) write(ctx context.Context, c *conclusion) error {
	_, err := w.Writer.Write(ctx, model.Credential, func(tx store.Tx) error {
		if err := w.lease.Check(tx); err != nil {
			return err
		}
		c.written, c.next = false, 0
		right, err := w.record(tx, c)
		if err != nil || c.step == nil || c.tried && !c.r.delivered() && !right {
			return err // the job goes on from there, with the receiver of now
		}
		return c.step.store(tx, w.portal)
	})
	if err == nil && c.next > 0 {
		c.job.version = c.next
	}
	return err
}

// record stores an outcome but for the step of a replay. right reports whether it is about the receiver of now.
func (w *worker) record(tx store.Tx, c *conclusion) (right bool, err error) {
	hook, err := hookOf(tx, w.portal)
	if err != nil {
		return false, err
	}
	stored, version, err := progressIn(tx, w.portal)
	if err != nil {
		return false, err
	}
	if hook == nil || hook.Destination == "" {
		if version == 0 {
			return false, nil
		}
		return false, tx.Delete(cloud.Deliveries, "", w.portal, version)
	}
	next := *stored
	if next.Cursor = max(next.Cursor, c.cursor); c.lost > 0 {
		if c.reason, err = reasonOf(tx, w.portal, c.cursor); err != nil {
			return false, err
		}
	}
	if right, err = w.rightful(tx, hook, c, version); err != nil {
		return false, err
	}
	if right && c.tried {
		if next.Destination != hook.Destination {
			next = afresh(&next, hook.Destination)
		}
		next.AttemptedAt, next.Code, next.Message = c.at.UnixMilli(), c.r.status, c.r.failed
		if c.ended {
			c.written, c.before, c.after = true, next.Failed, !c.r.delivered()
			next.Failed = c.after
		}
	}
	if next == *stored {
		return right, nil
	}
	return right, w.keep(tx, &next, version, c)
}

// rightful reports whether the result of a job counts for the webhook of now.
func (w *worker) rightful(tx store.Tx, hook *cloud.Webhook, c *conclusion, version uint64) (bool, error) {
	if hook.Destination != c.job.hook.Destination || version != c.job.version {
		return false, nil
	}
	to, err := specOf[cloud.Destination](tx, cloud.Destinations, hook.Destination)
	return to != nil && alike(*to, c.job.destination), err
}

// keep writes how far a delivery is. The job goes on with the version of that.
func (w *worker) keep(tx store.Tx, next *cloud.Delivery, version uint64, c *conclusion) error {
	res := &model.Resource{Kind: cloud.Deliveries, Name: w.portal, Spec: next}
	if version > 0 {
		res, err := tx.Update(res, version)
		if err == nil {
			c.next = res.Version
		}
		return err
	}
	// A webhook that was made anew and has had no event has nothing but a replay to tell of.
	position, err := positionIn(tx, w.portal)
	if err != nil {
		return err
	}
	if next.Cursor = cloud.EventName(w.portal, 0); position != nil {
		next.Cursor = cloud.EventName(w.portal, position.Spec.(*cloud.Position).Last)
	}
	if res, err = tx.Create(res); err == nil {
		c.next = res.Version
	}
	return err
}
