package cloud

import (
	"fmt"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/model"
)

// KeptEvents is how long events are kept after they happened, delivered or not.
const KeptEvents = 7 * 24 * time.Hour

// Webhook says whether the audit log of a portal is delivered, and where. It has the name of the
// portal. Source: requirement "Audit log webhook (per portal)".
type Webhook struct {
	Enabled bool `json:"enabled"`
	// Destination is the id of a destination; empty while there is none.
	Destination string `json:"audit_log_destination_id,omitempty" jsonschema_extras:"x-refers-to=audit_log_destination"`
}

// Webhooks is the kind of webhooks.
var Webhooks = model.Describe(Webhook{}, model.Kind{
	Name: "audit_log_webhook", Path: "audit-log-webhooks", Scoping: model.Global, Class: model.Config,
})

// Delivery is how far the delivery to a webhook is, and how it goes. It has the name of the portal.
type Delivery struct {
	// Destination is whom all of this is about. What is known of another one counts no more, but
	// for Cursor.
	Destination string `json:"destination,omitempty"`
	// Cursor is the name of the last event that was delivered or given up.
	Cursor string `json:"cursor,omitempty"`
	// AttemptedAt is when the last attempt began, in milliseconds of Unix time; 0 before the first.
	AttemptedAt int64 `json:"attempted_at,omitempty"`
	// Code is the status of the last answer, 0 if the last attempt had none. Message is for people.
	Code    int    `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Failed is set if the last delivery has failed as a whole, with all its attempts.
	Failed bool `json:"failed,omitempty"`
}

// Deliveries is the kind of deliveries, which no API shows as they are.
var Deliveries = model.Describe(Delivery{}, model.Kind{
	Name: "audit_log_delivery", Path: "audit-log-deliveries", Scoping: model.Global, Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true,
})

// Position counts the events of a portal. It has the name of the portal.
type Position struct {
	Last uint64 `json:"last"`
}

// Positions is the kind of positions, which no API shows.
var Positions = model.Describe(Position{}, model.Kind{
	Name: "audit_log_position", Path: "audit-log-positions", Scoping: model.Global, Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true,
})

// Event is one event of the audit log, until nobody can ask for it any more. Names are those of
// [EventName], so that the events of a portal are listed in order.
type Event struct {
	audit.Event
}

// Events is the kind of events. Their creation is announced: it is what wakes up the delivery, also
// that of another process.
var Events = model.Describe(Event{}, model.Kind{
	Name: "audit_log_event", Path: "audit-log-events", Scoping: model.Global, Class: model.Credential, Announce: model.AnnounceAll, ReadOnly: true, Fleeting: true,
	Expires: func(spec any) time.Time { return spec.(*Event).Time.Add(KeptEvents) },
})

// EventName is the name of the n-th event of a portal.
func EventName(portal string, n uint64) string { return fmt.Sprintf("%s.%016x", portal, n) }

// PortalOf returns the portal of an event by its name.
func PortalOf(event string) string {
	portal, _, _ := strings.Cut(event, ".")
	return portal
}
