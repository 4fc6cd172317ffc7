package delivery

import (
	"errors"
	"strings"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Put adds an event to the outbox, in the transaction of what caused it: neither exists without the
// other. Events of portals whose log goes nowhere are not kept. An event without an id gets one.
func Put(tx store.Tx, e audit.Event) error {
	hook, err := hookOf(tx, e.Portal)
	if err != nil || hook == nil || hook.Destination == "" {
		return err
	}
	if e.ID == "" {
		e.ID = uuid.NewString()
	}
	position := &model.Resource{Kind: cloud.Positions, Name: e.Portal}
	last := &cloud.Position{}
	stored, err := tx.Get(cloud.Positions, "", e.Portal)
	switch {
	case err == nil:
		last = stored.Spec.(*cloud.Position)
		position.Spec = &cloud.Position{Last: last.Last + 1}
		_, err = tx.Update(position, stored.Version)
	case fault.Is(err, fault.NotFound):
		position.Spec = &cloud.Position{Last: 1}
		_, err = tx.Create(position)
	}
	if err != nil {
		return err
	}
	_, err = tx.Create(&model.Resource{Kind: cloud.Events, Name: cloud.EventName(e.Portal, last.Last+1), Spec: &cloud.Event{Event: e}, Created: e.Time})
	return err
}

// hookOf is the webhook of a portal; nil if it has none.
func hookOf(r store.Reader, portal string) (*cloud.Webhook, error) {
	res, err := r.Get(cloud.Webhooks, "", portal)
	if fault.Is(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // nil is none
	}
	if err != nil {
		return nil, err
	}
	return res.Spec.(*cloud.Webhook), nil
}

// progressOf is how far the delivery of a portal is; at the beginning if nothing is known.
func progressOf(r store.Reader, portal string) (*cloud.Delivery, error) {
	res, err := r.Get(cloud.Deliveries, "", portal)
	if fault.Is(err, fault.NotFound) {
		return &cloud.Delivery{}, nil
	}
	if err != nil {
		return nil, err
	}
	return res.Spec.(*cloud.Delivery), nil
}

// work is what there is to deliver.
type work struct {
	hook        *cloud.Webhook
	destination *cloud.Destination
	progress    cloud.Delivery
	// names are those of the next events, at most [maxBatch].
	names []string
	// events are those of them that can be read; at has the place of each among the names.
	events []audit.Event
	at     []int
}

// read returns what there is to deliver for a portal; nil if there is nothing, or nobody to deliver
// it to now.
func read(r store.Reader, portal string) (*work, error) {
	hook, err := hookOf(r, portal)
	if err != nil || hook == nil || !hook.Enabled || hook.Destination == "" {
		return nil, err
	}
	progress, err := progressOf(r, portal)
	if err != nil {
		return nil, err
	}
	w := &work{hook: hook, progress: *progress}
	if progress.Destination != hook.Destination {
		w.progress = cloud.Delivery{Destination: hook.Destination, Cursor: progress.Cursor}
	}
	after := w.progress.Cursor
	if after == "" {
		after = cloud.EventName(portal, 0)
	}
	rows, err := r.List(cloud.Events, store.Query{After: after, Limit: maxBatch})
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if !strings.HasPrefix(row.Name, portal+".") {
			break
		}
		w.names = append(w.names, row.Name)
		// One that cannot be read any more is passed over: it must not hold up the others for ever.
		if event, ok := row.Spec.(*cloud.Event); ok && event != nil {
			w.events, w.at = append(w.events, event.Event), append(w.at, len(w.names)-1)
		}
	}
	if len(w.names) == 0 {
		return nil, nil //nolint:nilnil // nil is nothing
	}
	to, err := r.Get(cloud.Destinations, "", hook.Destination)
	if err != nil {
		return nil, errors.Join(errNoDestination, err)
	}
	w.destination = to.Spec.(*cloud.Destination)
	return w, nil
}

var errNoDestination = errors.New("the destination of a webhook cannot be read")
