package delivery

import (
	"context"
	"errors"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/lease"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Rows that only say how far an audit log is are in the transaction of every login and every change. One that
// cannot be read, as after a damage of the disk, would refuse all of these for ever, and nobody could switch the
// log off. So it is made anew, such that events are rather delivered twice than lost.

// rowOf reads a row that a transaction is about to change; nil if there is none. One that cannot be read is
// spoilt, and removed: an update of it would break the transaction. The engine logs it; see [Engine.told].
func rowOf(tx store.Tx, k *model.Kind, scope, name string) (res *model.Resource, spoilt bool, err error) {
	res, err = tx.Get(k, scope, name)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, false, nil
	case errors.Is(err, store.ErrUnreadable):
		return nil, true, tx.Delete(k, scope, name, 0)
	}
	return res, false, err
}

// positionIn is what counts the events of a portal, in a transaction; nil if there was none.
func positionIn(tx store.Tx, portal string) (*model.Resource, error) {
	res, spoilt, err := rowOf(tx, cloud.Positions, "", portal)
	if err != nil || !spoilt {
		return res, err
	}
	again, err := recount(tx, portal)
	if err != nil {
		return nil, err
	}
	return tx.Create(&model.Resource{Kind: cloud.Positions, Name: portal, Spec: again})
}

// recount finds the position of a portal from all else that is stored. The next number is above that of every
// event, whose name it would take, and of every cursor, behind which nobody would look.
func recount(tx store.Tx, portal string) (*cloud.Position, error) {
	n, err := tx.Count(cloud.Events, store.Query{Scope: portal})
	if err != nil {
		return nil, err
	}
	var first, last uint64
	if n > 0 {
		if first, err = numberAt(tx, portal, 0); err != nil {
			return nil, err
		}
		if last, err = numberAt(tx, portal, n-1); err != nil {
			return nil, err
		}
	}
	progress, _, err := progressOf(tx, portal)
	if err == nil {
		last = max(last, cloud.EventNumber(progress.Cursor), cloud.EventNumber(progress.Final))
	} else if !errors.Is(err, store.ErrUnreadable) {
		return nil, err
	}
	scopes, err := scopesOfSinks(tx)
	if err != nil {
		return nil, err
	}
	for _, scope := range scopes {
		res, err := tx.Get(cloud.SinkPositions, scope, portal)
		switch {
		case err == nil:
			last = max(last, res.Spec.(*cloud.SinkPosition).Done)
		case !fault.Is(err, fault.NotFound) && !errors.Is(err, store.ErrUnreadable):
			return nil, err
		}
	}
	if n == 0 {
		first = last + 1
	}
	return &cloud.Position{Last: last, First: first}, nil
}

// numberAt is the number of the event of a portal that so many others are before.
func numberAt(r store.Reader, portal string, skip int) (uint64, error) {
	rows, err := store.ListAll(r, cloud.Events, store.Query{Scope: portal, Skip: skip, Limit: 1})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	return cloud.EventNumber(rows[0].Name), nil
}

// progressIn is [progressOf] in a transaction. A delivery that is made anew begins with the first event that is
// there. If it is of the control plane's own log, what is there now counts as its end, because the end may
// not have been delivered; events that are for sinks alone are passed over in any case.
func progressIn(tx store.Tx, portal string) (*cloud.Delivery, uint64, error) {
	res, spoilt, err := rowOf(tx, cloud.Deliveries, "", portal)
	switch {
	case err != nil:
		return nil, 0, err
	case res != nil:
		return res.Spec.(*cloud.Delivery), res.Version, nil
	case !spoilt:
		return &cloud.Delivery{}, 0, nil
	}
	again := &cloud.Delivery{}
	position, err := positionIn(tx, portal)
	if err != nil {
		return nil, 0, err
	}
	if position != nil {
		p := position.Spec.(*cloud.Position)
		again.Cursor = cloud.EventName(portal, max(p.First, 1)-1)
		if portal == cloud.ControlPlaneLog {
			again.Final = cloud.EventName(portal, p.Last)
		}
	}
	if res, err = tx.Create(&model.Resource{Kind: cloud.Deliveries, Name: portal, Spec: again}); err != nil {
		return nil, 0, err
	}
	return again, res.Version, nil
}

// Mend makes what cannot be read of how far the log of a portal is anew, in a transaction. A replay job that
// cannot be read is removed.
func Mend(tx store.Tx, portal string) error {
	if _, err := positionIn(tx, portal); err != nil {
		return err
	}
	if _, _, err := progressIn(tx, portal); err != nil {
		return err
	}
	_, _, err := rowOf(tx, cloud.Replays, "", portal)
	return err
}

// mend is [Mend] in a transaction of its own.
func (e *Engine) mend(ctx context.Context, portal string) error {
	_, err := e.Writer.Write(ctx, model.Credential, func(tx store.Tx) error { return Mend(tx, portal) })
	return err
}

// removed says that a row was removed because it cannot be read, and wakes up whom it concerns.
func (e *Engine) removed(row *model.Resource) {
	unread, ok := row.Spec.(*store.Unread)
	if !ok {
		return
	}
	switch row.Kind {
	case cloud.Positions, cloud.Deliveries, cloud.Replays, cloud.Webhooks:
		e.wake(row.Name, true)
	case cloud.AllSinks, cloud.SinkPositions, lease.Leases:
	default:
		return
	}
	e.Log.Error("a row of an audit log cannot be read: it is removed, and made anew where it is needed; events may be delivered once more",
		"kind", row.Kind.Name, "scope", row.Scope, "name", row.Name, "error", unread.Why)
}
