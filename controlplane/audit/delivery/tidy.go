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
// up to the number behind have ended, whatever their dates say. Those of them that the webhook has not delivered, or
// that a sink has not got, are lost for it. A position that cannot be read is made anew before
// anything is removed, because its numbers are counted from the events; nobody else does it for a webhook that
// is off.
func (e *Engine) tidyPage(ctx context.Context, held *lease.Lease, portal string, behind uint64) (more bool, err error) {
	var lost uint64
	var missed []uint64
	_, err = e.Writer.Write(ctx, model.Credential, func(tx store.Tx) error {
		more, lost, missed = false, 0, nil
		if err := held.Check(tx); err != nil {
			return err
		}
		position, err := positionIn(tx, portal)
		if err != nil {
			return err
		}
		rows, err := e.ending(tx, portal, behind)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := tx.Delete(cloud.Events, portal, row.Name, row.Version); err != nil {
				return err
			}
		}
		more = len(rows) == tidied
		if len(rows) == 0 || position == nil {
			return nil
		}
		if lost, err = dropped(tx, position, rows); err != nil {
			return err
		}
		missed, err = e.passed(tx, portal, cloud.EventNumber(rows[len(rows)-1].Name))
		return err
	})
	if err != nil {
		return more, err
	}
	if lost > 0 {
		e.lose(lost, expired, portal)
	}
	for i, n := range missed {
		if n > 0 {
			e.sinks[i].lose(n, portal)
		}
	}
	return more, nil
}

// ending are the first events of a portal that end now, up to [tidied] of them.
func (e *Engine) ending(tx store.Tx, portal string, behind uint64) ([]*model.Resource, error) {
	rows, err := store.ListAll(tx, cloud.Events, store.Query{Scope: portal, Limit: tidied})
	if err != nil {
		return nil, err
	}
	until, err := e.mayEnd(tx, portal)
	if err != nil {
		return nil, err
	}
	over := e.over(rows, behind)
	for over > 0 && cloud.EventNumber(rows[over-1].Name) > until {
		over--
	}
	return rows[:over], nil
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

// passed notes that the events of a portal up to a number are gone, and returns how many of them each sink has
// missed. A sink that is down would else count them as lost no sooner than it works again, in another process.
func (e *Engine) passed(tx store.Tx, portal string, last uint64) ([]uint64, error) {
	missed := make([]uint64, len(e.sinks))
	for i, s := range e.sinks {
		if portal == cloud.ControlPlaneLog && !e.ControlPlane {
			continue
		}
		done, err := s.done(tx, portal)
		if errors.Is(err, store.ErrUnreadable) || err == nil && done >= last { // it is made anew by the sink
			continue
		}
		if err == nil {
			err = set(tx, cloud.SinkPositions, s.scope, portal, &cloud.SinkPosition{Done: last})
		}
		if err != nil {
			return nil, err
		}
		missed[i] = last - done
	}
	return missed, nil
}
