package delivery

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// The most that is kept of what strangers choose, and of what we choose, in bytes. So an event has at
// most a few KiB.
const (
	maxText = 1 << 10
	maxID   = 256
	// maxDocument is longer than what authors of events make.
	maxDocument = 16 << 10
)

// Put adds an event to the outbox, in the transaction of what caused it: neither exists without the
// other. Events of portals whose log goes nowhere are not kept. An event without an id or a time gets
// one, and long texts are cut. The transaction survives a power failure, of whatever class it is.
func Put(tx store.Tx, e audit.Event) error {
	to, err := takersOf(tx, e.Portal)
	if err != nil || !to.any() {
		return err
	}
	_, err = to.put(tx, e)
	return err
}

// takers are who gets the events of a portal.
type takers struct {
	// hook is nil if it gets nothing.
	hook  *cloud.Webhook
	sinks bool
}

// takersOf reads who gets the events of a portal. A webhook that is off gets them later, but for that of
// the control plane itself: while nobody wants to hear of every change, none is kept. Takers that cannot be
// read take everything: events are kept until somebody has made them anew.
func takersOf(r store.Reader, portal string) (to takers, err error) {
	hook, err := hookOf(r, portal)
	switch {
	case errors.Is(err, store.ErrUnreadable):
		to.hook = &cloud.Webhook{}
	case err != nil:
		return to, err
	}
	if hook != nil && hook.Destination != "" && (hook.Enabled || portal != cloud.ControlPlaneLog) {
		to.hook = hook
	}
	sinks, err := sinksOf(r)
	if to.sinks = sinks.Take(portal); errors.Is(err, store.ErrUnreadable) {
		to.sinks, err = true, nil
	}
	return to, err
}

func (to takers) any() bool { return to.hook != nil || to.sinks }

// put stores an event, and returns its name.
func (to takers) put(tx store.Tx, e audit.Event) (name string, err error) {
	position, err := count(tx, e.Portal)
	if err != nil {
		return "", err
	}
	n := position.Spec.(*cloud.Position).Last
	if to.hook != nil {
		if err := begin(tx, e.Portal, to.hook, n); err != nil {
			return "", err
		}
	}
	sinksOnly := to.hook == nil && e.Portal == cloud.ControlPlaneLog
	if sinksOnly {
		if err := passOver(tx, n); err != nil {
			return "", err
		}
	}
	if e.ID == "" {
		e.ID = uuid.NewString()
	}
	if e.Time.IsZero() {
		e.Time = position.Modified
	}
	cutAll(&e)
	name = cloud.EventName(e.Portal, n)
	_, err = tx.Create(&model.Resource{Kind: cloud.Events, Scope: e.Portal, Name: name, Spec: &cloud.Event{Event: e, SinksOnly: sinksOnly}})
	return name, err
}

// count gives an event its number, and drops the oldest one if there are too many. What was dropped
// before anybody has got it is found by whoever delivers: numbers have no gaps.
func count(tx store.Tx, portal string) (*model.Resource, error) {
	stored, err := positionIn(tx, portal)
	if err != nil {
		return nil, err
	}
	if stored == nil {
		return tx.Create(&model.Resource{Kind: cloud.Positions, Name: portal, Spec: &cloud.Position{Last: 1, First: 1}})
	}
	next := *stored.Spec.(*cloud.Position)
	next.Last++
	if next.First = max(next.First, 1); next.Last-next.First >= maxEvents {
		err := tx.Delete(cloud.Events, portal, cloud.EventName(portal, next.First), 0)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		next.Crowded, next.First = next.First, next.First+1
	}
	return tx.Update(&model.Resource{Kind: cloud.Positions, Name: portal, Spec: &next}, stored.Version)
}

// maxEvents is [cloud.MaxEvents], or fewer in tests.
var maxEvents uint64 = cloud.MaxEvents

// begin lets the delivery to a webhook begin with the n-th event, if there was none since the webhook
// was made: what happened before is not for it.
func begin(tx store.Tx, portal string, hook *cloud.Webhook, n uint64) error {
	_, version, err := progressIn(tx, portal)
	if err == nil && version == 0 {
		_, err = tx.Create(&model.Resource{Kind: cloud.Deliveries, Name: portal, Spec: &cloud.Delivery{
			Destination: hook.Destination, Cursor: cloud.EventName(portal, n-1),
		}})
	}
	return err
}

// cutAll cuts the texts of an event.
func cutAll(e *audit.Event) {
	for _, text := range []*string{&e.Request, &e.UserAgent} {
		*text = cut(*text, maxText)
	}
	for _, text := range []*string{&e.ID, &e.Organization, &e.Principal, &e.Trace, (*string)(&e.Method), (*string)(&e.Outcome)} {
		*text = cut(*text, maxID)
	}
	if e.Administration == nil {
		return
	}
	a := *e.Administration // it is the caller's
	for _, text := range []*string{&a.Actor, &a.API, &a.Action, &a.Kind, &a.Scoping, &a.Scope, &a.Name, &a.Title, &a.Cause, &a.Reason} {
		*text = cut(*text, maxID)
	}
	for _, text := range []*string{&a.Members, &a.Before, &a.After} {
		if len(*text) > maxDocument {
			*text, a.Cut = cut(*text, maxDocument), true
		}
	}
	e.Administration = &a
}

// cut returns the beginning of a text, as valid UTF-8 of at most so many bytes.
func cut(text string, most int) string {
	if len(text) > most {
		end := most
		for end > 0 && end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	// What replaces a byte is longer than it.
	if text = strings.ToValidUTF8(text, "\uFFFD"); len(text) > most {
		return cut(text, most)
	}
	return text
}

// hookOf is the webhook of a portal; nil if it has none.
func hookOf(r store.Reader, portal string) (*cloud.Webhook, error) {
	return specOf[cloud.Webhook](r, cloud.Webhooks, portal)
}

// specOf is the spec of a resource; nil if there is none.
func specOf[T any](r store.Reader, k *model.Kind, name string) (*T, error) {
	res, err := r.Get(k, "", name)
	if fault.Is(err, fault.NotFound) {
		return nil, nil //nolint:nilnil // nil is none
	}
	if err != nil {
		return nil, err
	}
	return res.Spec.(*T), nil
}

// progressOf is how far the delivery of a portal is, and the version of that; 0 if nothing is known.
func progressOf(r store.Reader, portal string) (*cloud.Delivery, uint64, error) {
	res, err := r.Get(cloud.Deliveries, "", portal)
	if fault.Is(err, fault.NotFound) {
		return &cloud.Delivery{}, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	return res.Spec.(*cloud.Delivery), res.Version, nil
}

// positionOf counts the events of a portal.
func positionOf(r store.Reader, portal string) (cloud.Position, error) {
	p, err := specOf[cloud.Position](r, cloud.Positions, portal)
	if err != nil || p == nil {
		return cloud.Position{}, err
	}
	return *p, nil
}
