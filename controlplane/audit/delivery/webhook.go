package delivery

import (
	"strings"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Lead makes the webhook of a portal as it is to be, in a transaction. Another destination gets what
// the former one has not taken, and nothing that was found out about that one counts.
func Lead(tx store.Tx, portal string, hook cloud.Webhook) error {
	stored, err := hookOf(tx, portal)
	if err != nil {
		return err
	}
	res := &model.Resource{Kind: cloud.Webhooks, Name: portal, Spec: &hook}
	if stored == nil {
		_, err = tx.Create(res)
	} else {
		_, err = tx.Update(res, 0)
	}
	if err != nil || stored == nil || stored.Destination == hook.Destination {
		return err
	}
	progress, err := tx.Get(cloud.Deliveries, "", portal)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	fresh := &cloud.Delivery{Destination: hook.Destination, Cursor: progress.Spec.(*cloud.Delivery).Cursor}
	_, err = tx.Update(&model.Resource{Kind: cloud.Deliveries, Name: portal, Spec: fresh}, 0)
	return err
}

// store writes how far a delivery is. What was given up meanwhile stays so, and if the webhook leads
// elsewhere now, or is gone, nothing else of what was found out counts.
func (w *worker) store(tx store.Tx, next cloud.Delivery) error {
	hook, err := hookOf(tx, w.portal)
	if err != nil {
		return err
	}
	gone := hook == nil || hook.Destination != next.Destination
	stored, err := tx.Get(cloud.Deliveries, "", w.portal)
	switch {
	case fault.Is(err, fault.NotFound) && gone:
		return nil
	case fault.Is(err, fault.NotFound):
		_, err = tx.Create(&model.Resource{Kind: cloud.Deliveries, Name: w.portal, Spec: &next})
		return err
	case err != nil:
		return err
	}
	old := *stored.Spec.(*cloud.Delivery)
	next.Cursor = max(next.Cursor, old.Cursor)
	if gone {
		old.Cursor = next.Cursor
		next = old
	}
	_, err = tx.Update(&model.Resource{Kind: cloud.Deliveries, Name: w.portal, Spec: &next}, 0)
	return err
}

// Forget removes what is known about the delivery of a portal in a transaction: its replay job, its
// webhook, and how far it was. Events that are waiting are given up; they are kept for as long as
// others.
func Forget(tx store.Tx, portal string) error {
	for _, k := range []*model.Kind{cloud.Replays, cloud.Webhooks} {
		if err := tx.Delete(k, "", portal, 0); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	end := &cloud.Delivery{}
	position, err := tx.Get(cloud.Positions, "", portal)
	switch {
	case err == nil:
		end.Cursor = cloud.EventName(portal, position.Spec.(*cloud.Position).Last)
	case !fault.Is(err, fault.NotFound):
		return err
	}
	_, err = tx.Get(cloud.Deliveries, "", portal)
	res := &model.Resource{Kind: cloud.Deliveries, Name: portal, Spec: end}
	switch {
	case err == nil:
		_, err = tx.Update(res, 0)
	case fault.Is(err, fault.NotFound) && end.Cursor != "":
		_, err = tx.Create(res)
	case fault.Is(err, fault.NotFound):
		return nil // there has never been an event
	}
	return err
}

// Purge removes up to limit events of a portal in a transaction, and says whether there may be more.
func Purge(tx store.Tx, portal string, limit int) (more bool, err error) {
	rows, err := tx.List(cloud.Events, store.Query{After: cloud.EventName(portal, 0), Limit: limit})
	if err != nil {
		return false, err
	}
	for i, row := range rows {
		if !strings.HasPrefix(row.Name, portal+".") {
			return false, nil
		}
		if err := tx.Delete(cloud.Events, "", row.Name, 0); err != nil {
			return false, err
		}
		more = i == limit-1
	}
	return more, nil
}
