package cloud

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/model"
)

// KeptEvents is how long events are kept after they were stored, delivered or not.
const KeptEvents = 7 * 24 * time.Hour

// MaxEvents is how many events of a portal are kept at most. Those before them are dropped, delivered
// or not.
const MaxEvents = 1 << 20

// ControlPlaneLog stands, wherever the name of a portal does, for the audit log of the control plane itself:
// the changes of its resources, and refused calls of its APIs. Portals have UUIDs as names.
const ControlPlaneLog = "control-plane"

// Webhook says whether the audit log of a portal is delivered, and where. It has the name of the
// portal. Source: requirement "Audit log webhook (per portal)".
type Webhook struct {
	Enabled bool `json:"enabled"`
	// Destination is the id of a destination; empty while there is none.
	Destination string `json:"audit_log_destination_id,omitempty" jsonschema_extras:"x-refers-to=audit_log_destination"`
}

// Webhooks is the kind of webhooks.
var Webhooks = model.Describe(Webhook{}, model.Kind{
	Name: "audit_log_webhook", Path: "audit-log-webhooks", Scoping: model.Global, Class: model.Config, Busy: true,
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
	// Final is, of a log that is kept only while its webhook is on, the name of the event of its being
	// switched off. What is there up to that goes out nevertheless.
	Final string `json:"final,omitempty"`
}

// Deliveries is the kind of deliveries, which no API shows as they are.
var Deliveries = model.Describe(Delivery{}, model.Kind{
	Name: "audit_log_delivery", Path: "audit-log-deliveries", Scoping: model.Global, Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true, Busy: true,
})

// Position counts the events of a portal. It has the name of the portal.
type Position struct {
	// Last is the number of the last event, First that of the first one that may still be there; 0
	// is the same as 1.
	Last  uint64 `json:"last"`
	First uint64 `json:"first,omitempty"`
	// Crowded is the number of the last event that was dropped because there were [MaxEvents] newer
	// ones.
	Crowded uint64 `json:"crowded,omitempty"`
}

// Positions is the kind of positions, which no API shows.
var Positions = model.Describe(Position{}, model.Kind{
	Name: "audit_log_position", Path: "audit-log-positions", Scoping: model.Global, Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true, Busy: true,
})

// Event is one event of the audit log, until nobody can ask for it any more.
type Event struct {
	audit.Event
	// SinksOnly is set of an event of [ControlPlaneLog] that happened while its webhook was off: it is for
	// sinks alone, for good.
	SinksOnly bool `json:"sinks_only,omitempty"`
}

// ReadPlain implements [model.Plain].
func (e *Event) ReadPlain(spec []byte) bool {
	event, ok := audit.ReadPlain(spec)
	if ok {
		*e = Event{Event: event}
	}
	return ok
}

// Events is the kind of events. The scope of an event is its portal, so that those of one portal are
// listed without those of others, and its name is that of [EventName], so that they are listed in
// order. They announce nothing and are not recorded, because there may be thousands in a second: who
// waits for them is told of commits (package notice). They are encrypted at rest, as what they tell of may
// be. They are durable: nobody can be asked to log in
// once more after a power failure. The store does not end them by itself: the delivery removes them
// after [KeptEvents], and says how many of them have reached nobody.
var Events = model.Describe(Event{}, model.Kind{
	Name: "audit_log_event", Path: "audit-log-events", Scoping: model.Global, Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true, Fleeting: true,
	Durable: true, Sealed: true,
})

// EventName is the name of the n-th event of a portal.
func EventName(portal string, n uint64) string { return fmt.Sprintf("%s.%016x", portal, n) }

// EventNumber is the number of an event by its name; 0 if it has none, as the empty name has.
func EventNumber(event string) uint64 {
	n, err := strconv.ParseUint(event[strings.LastIndexByte(event, '.')+1:], 16, 64)
	if err != nil {
		return 0
	}
	return n
}

// Sinks are the receivers of events by syslog that the settings name, for the transactions that store
// events. There is one resource, [SyslogSinks].
type Sinks struct {
	Addresses []string `json:"addresses"`
	// ControlPlane says that they get the audit log of the control plane itself, too.
	ControlPlane bool `json:"control_plane,omitempty"`
}

// Take reports whether the sinks get the events of a portal.
func (s Sinks) Take(portal string) bool {
	return len(s.Addresses) > 0 && (s.ControlPlane || portal != ControlPlaneLog)
}

// SyslogSinks is the name of the resource of kind [AllSinks].
const SyslogSinks = "syslog"

// AllSinks is the kind of sinks, which no API shows.
var AllSinks = model.Describe(Sinks{}, model.Kind{
	Name: "audit_log_sinks", Path: "audit-log-sinks", Scoping: model.Global, Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true, Busy: true,
})

// SinkPosition is how many events of a portal a sink has got. It has the name of the portal, and the
// sink as its scope.
//
// One without a scope has that of a sink as its name, and marks that there is this sink: so the positions of all
// sinks are found even if [Sinks] cannot be read.
type SinkPosition struct {
	Done uint64 `json:"done"`
}

// SinkPositions is the kind of these, which no API shows.
var SinkPositions = model.Describe(SinkPosition{}, model.Kind{
	Name: "audit_log_sink_position", Path: "audit-log-sink-positions", Scoping: model.Global, Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true,
})
