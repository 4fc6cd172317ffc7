package delivery

import (
	"errors"
	"slices"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/store"
)

// work is what there is to deliver.
type work struct {
	hook cloud.Webhook
	// made tells a webhook from one that was made in its place after it was deleted.
	made        uint64
	destination cloud.Destination
	progress    cloud.Delivery
	// version is that of progress.
	version uint64
	// names are those of the next events, at most [maxBatch]. events are those of them that can be
	// read, at are their places in names.
	names  []string
	events []audit.Event
	at     []int
	// hooked says that the job is for a webhook, and aside are the places in names of events that are not
	// for it.
	hooked bool
	aside  []int
	// lost is where the events begin that are there, if some before it are not; empty otherwise.
	lost string
}

// name is the name of the i-th event that can be read.
func (w *work) name(i int) string { return w.names[w.at[i]] }

// upTo is the name up to which a job is done with when so many of its events are: what cannot be read
// after the last of them is done with, too.
func (w *work) upTo(n int) string {
	if n == len(w.events) {
		return w.names[len(w.names)-1]
	}
	return w.names[w.at[n]-1]
}

// unreadable is how many events cannot be read among those up to a name.
func (w *work) unreadable(name string) (n int) {
	read := map[int]bool{}
	for _, i := range slices.Concat(w.at, w.aside) {
		read[i] = true
	}
	for i := range w.names {
		if !read[i] && w.names[i] <= name {
			n++
		}
	}
	return n
}

// same reports whether a job is for the same receiver under the same settings.
func (w *work) same(other *work) bool {
	return other != nil && w.hook == other.hook && w.made == other.made && alike(w.destination, other.destination)
}

// alike reports whether deliveries to two destinations are the same. What people call them is no matter: a
// receiver that is down would be tried anew with each new name.
func alike(a, b cloud.Destination) bool {
	a.Name = b.Name
	return a == b
}

// setting returns a job without events: where those of a portal go; nil if they go nowhere now.
func setting(r store.Reader, portal string) (*work, error) {
	row, err := r.Get(cloud.Webhooks, "", portal)
	if fault.Is(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // nil is none
	}
	if err != nil {
		return nil, err
	}
	hook := row.Spec.(*cloud.Webhook)
	if hook.Destination == "" || !hook.Enabled && portal != cloud.ControlPlaneLog {
		return nil, nil //nolint:nilnil // nil is none
	}
	progress, version, err := progressOf(r, portal)
	if err != nil {
		return nil, err
	}
	if !hook.Enabled && progress.Cursor >= progress.Final {
		return nil, nil //nolint:nilnil // nil is none
	}
	to, err := r.Get(cloud.Destinations, "", hook.Destination)
	if err != nil {
		return nil, errors.Join(errNoDestination, err)
	}
	w := &work{hooked: true, hook: *hook, made: row.Since(""), destination: *to.Spec.(*cloud.Destination), progress: *progress, version: version}
	if progress.Destination != hook.Destination {
		w.progress = afresh(progress, hook.Destination)
	}
	return w, nil
}

// afresh is what is known of the delivery to another destination: how far it is.
func afresh(of *cloud.Delivery, destination string) cloud.Delivery {
	return cloud.Delivery{Destination: destination, Cursor: of.Cursor, Final: of.Final}
}

var errNoDestination = errors.New("the destination of a webhook cannot be read")

// read returns what there is to deliver for a portal; nil if there is nothing, or nobody to deliver it
// to now. It reads so many events at most.
func read(r store.Reader, portal string, most int) (*work, error) {
	w, err := setting(r, portal)
	if err != nil || w == nil || w.version == 0 { // nothing has happened since the webhook was made
		return nil, err
	}
	position, err := positionOf(r, portal)
	if err != nil {
		return nil, err
	}
	done, last, until := cloud.EventNumber(w.progress.Cursor), position.Last, ""
	if !w.hook.Enabled {
		until = w.progress.Final
		last = min(last, cloud.EventNumber(until))
	}
	if last <= done {
		return nil, nil //nolint:nilnil // nil is nothing
	}
	if err := w.fill(r, portal, w.progress.Cursor, until, most); err != nil {
		return nil, err
	}
	// Numbers have no gaps, so what is missing has ended or was dropped.
	first := last + 1
	if len(w.names) > 0 {
		first = cloud.EventNumber(w.names[0])
	}
	if first > done+1 {
		w.lost = cloud.EventName(portal, first)
	}
	return w, nil
}

const (
	// page is how many events are read at once.
	page = 50
	// maxAside bounds how many events are passed over at once that are not for a webhook.
	maxAside = 10_000
)

// fill reads events after a name and, unless it is empty, up to another one: so many, and no more than
// fit into a request. Those that cannot be read are passed over: they must not hold up others for ever. Those
// that are not for the webhook do not count.
func (w *work) fill(r store.Reader, portal, after, until string, most int) error {
	size := 0
	for len(w.names)-len(w.aside) < most && size < maxBody && len(w.aside) < maxAside {
		limit := min(page, most-len(w.names)+len(w.aside))
		if len(w.aside) > 0 {
			limit = page // there may be many more
		}
		rows, err := store.ListAll(r, cloud.Events, store.Query{Scope: portal, After: after, Limit: limit})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if until != "" && row.Name > until {
				return nil
			}
			w.names = append(w.names, row.Name)
			switch event, ok := row.Spec.(*cloud.Event); {
			case !ok || event == nil:
			case w.hooked && event.SinksOnly:
				w.aside = append(w.aside, len(w.names)-1)
			default:
				w.events, w.at = append(w.events, event.Event), append(w.at, len(w.names)-1)
				size += sizeOf(&event.Event)
			}
		}
		if len(rows) < limit {
			return nil
		}
		after = rows[len(rows)-1].Name
	}
	return nil
}

// sizeOf is about how large an event is in a request.
func sizeOf(e *audit.Event) int {
	documents := 0
	if a := e.Administration; a != nil {
		documents = 512 + len(a.Members) + len(a.Before) + len(a.After)
	}
	return 512 + documents + len(e.Request) + len(e.UserAgent) + len(e.Organization) + len(e.Principal) + len(e.Trace) + len(e.ID)
}
