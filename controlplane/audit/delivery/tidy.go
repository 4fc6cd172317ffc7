package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/lease"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

const (
	// tidying is how often events are removed that have ended.
	tidying = time.Hour
	// tidied is how many of them one transaction removes.
	tidied = 256
)

// tidy removes events that have ended, until ctx ends.
func (e *Engine) tidy(ctx context.Context) {
	for wait := time.Duration(0); ; wait = tidying {
		if wait > 0 && e.Rest(ctx, wait) != nil {
			return
		}
		held, err := e.Leases.Take(ctx, "audit-log-tidying")
		if err == nil {
			err = e.tidyAll(held.Context(), held)
			release, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
			held.Release(release)
			cancel()
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			e.Log.Error("events that have ended are not removed, and will be", "error", err)
		}
	}
}

// tidyAll removes the events of all portals that have ended. One of which they cannot be removed holds up no
// other one.
func (e *Engine) tidyAll(ctx context.Context, held *lease.Lease) error {
	var portals []string
	err := e.Store.View(ctx, func(r store.Reader) error {
		rows, err := store.ListAll(r, cloud.Positions, store.Query{})
		for _, row := range rows {
			portals = append(portals, row.Name)
		}
		return err
	})
	for _, portal := range portals {
		if failed := e.tidyPortal(ctx, held, portal); failed != nil {
			err = errors.Join(err, fmt.Errorf("portal %s: %w", portal, failed))
		}
		if ctx.Err() != nil {
			return err
		}
	}
	return errors.Join(err, e.sweep(ctx, held))
}

// tidyPortal removes the events of a portal that have ended.
func (e *Engine) tidyPortal(ctx context.Context, held *lease.Lease, portal string) error {
	var behind uint64
	err := e.Store.View(ctx, func(r store.Reader) (err error) {
		behind, err = e.behindFuture(r, portal)
		return err
	})
	for more := true; more && err == nil && ctx.Err() == nil; {
		more, err = e.tidyPage(ctx, held, portal, behind)
	}
	return err
}

// tidyPage removes up to [tidied] events of a portal that have ended, and says whether there may be more. Those
// up to the number behind have ended, whatever their dates say.
// Those of them that the webhook has not delivered are lost. A position that cannot be read is made anew before
// anything is removed, because its numbers are counted from the events; nobody else does it for a webhook that
// is off.
func (e *Engine) tidyPage(ctx context.Context, held *lease.Lease, portal string, behind uint64) (more bool, err error) {
	var lost uint64
	_, err = e.Writer.Write(ctx, model.Credential, func(tx store.Tx) error {
		more, lost = false, 0
		if err := held.Check(tx); err != nil {
			return err
		}
		position, err := positionIn(tx, portal)
		if err != nil {
			return err
		}
		rows, err := store.ListAll(tx, cloud.Events, store.Query{Scope: portal, Limit: tidied})
		if err != nil {
			return err
		}
		until, err := e.mayEnd(tx, portal)
		if err != nil {
			return err
		}
		over := e.over(rows, behind)
		for over > 0 && cloud.EventNumber(rows[over-1].Name) > until {
			over--
		}
		for _, row := range rows[:over] {
			if err := tx.Delete(cloud.Events, portal, row.Name, row.Version); err != nil {
				return err
			}
		}
		more = over == tidied
		if over == 0 || position == nil {
			return nil
		}
		lost, err = dropped(tx, position, rows[:over])
		return err
	})
	if err == nil && lost > 0 {
		e.lose(lost, expired, portal)
	}
	return more, err
}

// over is how many of the first events have ended. Events are in the order in which they were stored, so
// that whatever their dates say, one that is before another has been kept for longer.
//
// The date is the wall clock of the commit, and the end is judged by the earliest time that it may be, if
// every setting of the clock counts: so the whole span passes in between, wherever the clock was meanwhile.
func (e *Engine) over(rows []*model.Resource, behind uint64) int {
	for i := len(rows); i > 0; i-- {
		if cloud.EventNumber(rows[i-1].Name) <= behind || e.ended(rows[i-1]) {
			return i
		}
	}
	return 0
}

// ended reports whether an event has been kept for long enough, by its own date.
func (e *Engine) ended(event *model.Resource) bool {
	return !event.Modified.Add(cloud.KeptEvents).After(e.Clock.EarliestFor(cloud.KeptEvents))
}

// dropped notes in the position of a portal that its first events are gone, which are given. It returns how many
// of them the webhook was to get: none of those that are for sinks alone. No later event gets a number up to that of
// the last one: nobody would look for it.
func dropped(tx store.Tx, stored *model.Resource, gone []*model.Resource) (lost uint64, err error) {
	portal, last, next := stored.Name, gone[len(gone)-1].Name, *stored.Spec.(*cloud.Position)
	next.First = cloud.EventNumber(last) + 1
	next.Last = max(next.Last, next.First-1)
	if _, err := tx.Update(&model.Resource{Kind: cloud.Positions, Name: portal, Spec: &next}, stored.Version); err != nil {
		return 0, err
	}
	progress, version, err := progressIn(tx, portal)
	if err != nil || version == 0 {
		return 0, err
	}
	after := *progress
	done := cloud.EventNumber(after.Cursor)
	if done >= next.First-1 {
		return 0, nil
	}
	lost, after.Cursor = next.First-1-done, last
	for _, row := range gone {
		if event, ok := row.Spec.(*cloud.Event); ok && event != nil && event.SinksOnly && cloud.EventNumber(row.Name) > done {
			lost--
		}
	}
	_, err = tx.Update(&model.Resource{Kind: cloud.Deliveries, Name: portal, Spec: &after}, version)
	return lost, err
}
