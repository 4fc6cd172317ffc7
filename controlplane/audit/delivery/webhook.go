package delivery

import (
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Lead makes the webhook of a portal as it is to be, in a transaction. Another destination gets what
// the former one has not taken, and nothing that was found out about that one counts.
func Lead(tx store.Tx, portal string, hook cloud.Webhook) error {
	stored, _, err := rowOf(tx, cloud.Webhooks, "", portal)
	if err != nil {
		return err
	}
	res := &model.Resource{Kind: cloud.Webhooks, Name: portal, Spec: &hook}
	if stored == nil {
		_, err = tx.Create(res)
	} else {
		_, err = tx.Update(res, 0)
	}
	if err != nil || stored == nil || stored.Spec.(*cloud.Webhook).Destination == hook.Destination {
		return err
	}
	progress, version, err := progressIn(tx, portal)
	if err != nil || version == 0 {
		return err
	}
	fresh := afresh(progress, hook.Destination)
	_, err = tx.Update(&model.Resource{Kind: cloud.Deliveries, Name: portal, Spec: &fresh}, 0)
	return err
}

// Forget removes what is known about the delivery of a portal in a transaction: its replay job, its
// webhook, and how far it was. Events that are waiting are given up; they are kept for as long as
// others. A webhook that is made later begins with what happens after it.
func Forget(tx store.Tx, portal string) error {
	for _, k := range []*model.Kind{cloud.Replays, cloud.Webhooks, cloud.Deliveries} {
		if err := tx.Delete(k, "", portal, 0); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

// Purge removes up to limit events of a portal in a transaction, and says whether there may be more. With
// the last of them goes what counts them.
func Purge(tx store.Tx, portal string, limit int) (more bool, err error) {
	rows, err := store.ListAll(tx, cloud.Events, store.Query{Scope: portal, Limit: limit})
	if err != nil {
		return false, err
	}
	for _, row := range rows {
		if err := tx.Delete(cloud.Events, portal, row.Name, 0); err != nil {
			return false, err
		}
	}
	if len(rows) == limit {
		return true, nil
	}
	if err := tx.Delete(cloud.Positions, "", portal, 0); err != nil && !fault.Is(err, fault.NotFound) {
		return false, err
	}
	scopes, err := scopesOfSinks(tx)
	for _, scope := range scopes {
		if err := tx.Delete(cloud.SinkPositions, scope, portal, 0); err != nil && !fault.Is(err, fault.NotFound) {
			return false, err
		}
	}
	return false, err
}
