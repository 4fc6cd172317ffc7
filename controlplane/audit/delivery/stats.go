package delivery

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/store"
)

// stats count since the engine was made.
type stats struct {
	delivered, givenUp, unreadable, expired, crowded, turns atomic.Uint64
}

// Stats are figures of the delivery.
type Stats struct {
	// Delivered events were taken by receivers. GivenUp ones were refused for what they are,
	// Unreadable ones cannot be read, Expired ones had been kept for [cloud.KeptEvents], Crowded ones
	// were dropped because of [cloud.MaxEvents] others, all without having been delivered. Turns
	// counts webhooks that have become inactive.
	Delivered, GivenUp, Unreadable, Expired, Crowded, Turns uint64
}

// Stats returns the figures.
func (e *Engine) Stats() Stats {
	return Stats{
		Delivered: e.stats.delivered.Load(), GivenUp: e.stats.givenUp.Load(), Unreadable: e.stats.unreadable.Load(),
		Expired: e.stats.expired.Load(), Crowded: e.stats.crowded.Load(), Turns: e.stats.turns.Load(),
	}
}

// Waiting returns how many events are there that their webhooks have not delivered, also while these are
// switched off, and how many enabled webhooks are inactive. Of a webhook of which it cannot be read how far it is
// all events wait that are there, because all will be delivered; if these cannot be counted either, one waits.
func (e *Engine) Waiting(ctx context.Context) (events, inactive uint64, err error) {
	err = e.Store.View(ctx, func(r store.Reader) error {
		events, inactive = 0, 0
		hooks, err := store.ListAll(r, cloud.Webhooks, store.Query{})
		if err != nil {
			return err
		}
		for _, row := range hooks {
			hook, ok := row.Spec.(*cloud.Webhook)
			if !ok { // it cannot be read; its events are kept until somebody has made it anew
				hook = &cloud.Webhook{Enabled: true}
			} else if hook.Destination == "" {
				continue
			}
			progress, version, err := progressOf(r, row.Name)
			position, failed := positionOf(r, row.Name)
			switch {
			case errors.Is(failed, store.ErrUnreadable):
				events++
				continue
			case failed != nil:
				return failed
			case errors.Is(err, store.ErrUnreadable):
				events += position.Last - max(position.First, 1) + 1
				continue
			case err != nil:
				return err
			}
			last := position.Last
			if row.Name == cloud.ControlPlaneLog && !hook.Enabled { // what comes after its end is for sinks alone
				last = min(last, cloud.EventNumber(progress.Final))
			}
			if done := cloud.EventNumber(progress.Cursor); version > 0 && last > done {
				events += last - done
			}
			if ok && hook.Enabled && progress.Failed && progress.Destination == hook.Destination {
				inactive++
			}
		}
		return nil
	})
	return events, inactive, err
}

// lossReason is why events are gone that were not delivered.
type lossReason string

const (
	expired lossReason = "they were kept for as long as events are"
	crowded lossReason = "there were too many newer ones"
)

// reasonOf is why the event of a name is gone.
func reasonOf(tx store.Tx, portal, name string) (lossReason, error) {
	position, err := positionIn(tx, portal)
	if position != nil && cloud.EventNumber(name) <= position.Spec.(*cloud.Position).Crowded {
		return crowded, err
	}
	return expired, err
}

// lose counts events that are gone before they were delivered, and says so.
func (e *Engine) lose(n uint64, why lossReason, portal string) {
	count := &e.stats.expired
	if why == crowded {
		count = &e.stats.crowded
	}
	count.Add(n)
	e.Log.Error("events of an audit log are lost: nobody has taken them in time", "portal", portal, "events", n, "reason", string(why))
}

// turned says that a webhook has become inactive, or active again.
func (e *Engine) turned(inactive bool, portal, destination string, status int, message string) {
	if !inactive {
		e.Log.Info("a webhook is active again", "portal", portal, "destination", destination)
		return
	}
	e.stats.turns.Add(1)
	e.Log.Warn("a webhook is inactive: the receiver does not take what it is sent, which is kept and tried again", "portal", portal,
		"destination", destination, "status", status, "reason", message)
}
