package audit

import (
	"net/netip"
	"time"
)

// Outcome is how an attempt to log in ended.
type Outcome string

// The outcomes.
const (
	Success         Outcome = "SUCCESS"
	NotFound        Outcome = "NOT_FOUND"
	InvalidPassword Outcome = "INVALID_PASSWORD"
	TokenExpired    Outcome = "TOKEN_EXPIRED"
	Locked          Outcome = "LOCKED"
	Disabled        Outcome = "DISABLED"
	Invalid         Outcome = "INVALID"
	// Test is no login at all: somebody tries out a receiver.
	Test Outcome = "TEST"
)

// severities are those of the format, 0 to 10. What is not listed is the worst that a login can be.
var severities = map[Outcome]int{Success: 0, Test: 0, NotFound: 1, InvalidPassword: 1, TokenExpired: 1, Locked: 6, Disabled: 6}

// severity returns how bad an outcome is.
func (o Outcome) severity() int {
	if s, ok := severities[o]; ok {
		return s
	}
	return 7
}

// Method is how somebody logged in.
type Method string

// The methods.
const (
	// Basic is an e-mail address with a password.
	Basic Method = "BASIC"
	// Unknown is a request that names none.
	Unknown Method = "INVALID"
)

// Event is one attempt of a developer to log in to a portal or, with Administration, what has happened to
// the control plane itself.
type Event struct {
	// ID tells an event that was delivered twice from two events.
	ID      string    `json:"id"`
	Time    time.Time `json:"time"`
	Method  Method    `json:"method"`
	Outcome Outcome   `json:"outcome"`
	// Source is the address of the client.
	Source netip.Addr `json:"source"`
	// Request is the path of the request.
	Request      string `json:"request"`
	UserAgent    string `json:"user_agent"`
	Organization string `json:"organization"`
	Portal       string `json:"portal"`
	// Principal is the id of the developer; empty if nobody has that address.
	Principal string `json:"principal"`
	// Trace is the trace id of the request, in decimal.
	Trace string `json:"trace"`
	// Administration is nil for logins. With it, Method, Outcome, Portal and Principal mean nothing.
	Administration *Administration `json:"administration,omitempty"`
}

// The prefixes of what stands for method and outcome in both formats.
const (
	prefixMethod  = "AUTHENTICATION_TYPE_"
	prefixOutcome = "AUTHENTICATION_OUTCOME_"
)

// Origin names the product whose events these are.
type Origin struct {
	// Vendor and Host are of the deployment.
	Vendor, Host string
}

const (
	product    = "Dev-Portal"
	productOwn = "Control-Plane"
	version    = "1.0"
	cefVersion = 0
)

// head is what every event says of itself, whatever happened.
type head struct {
	product, class, name string
	severity             int
}

// head returns the head of an event.
func (e *Event) head() head {
	if a := e.Administration; a != nil {
		return head{productOwn, prefixOwn + string(a.Class), prefixOwn + a.outcome(), a.severity()}
	}
	return head{product, prefixMethod + string(e.Method), prefixOutcome + string(e.Outcome), e.Outcome.severity()}
}

// fields lists the members of an event, without head and signature. There is room for these behind them.
func (e *Event) fields() []field {
	if e.Administration != nil {
		return e.administration()
	}
	return append(
		make([]field, 0, mostMembers),
		number("rt", e.Time.UnixMilli()),
		text("src", e.source()),
		text("request", e.Request),
		truth("success", e.Outcome == Success),
		text("org_id", e.Organization),
		text("portal_id", e.Portal),
		text("principal_id", e.Principal),
		text("trace_id", e.Trace),
		text("event_id", e.ID),
		text("user_agent", e.UserAgent),
	)
}

// stamp writes a time as both formats do.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// source writes the address of the client; nothing if it is not known.
func (e *Event) source() string {
	if !e.Source.IsValid() {
		return ""
	}
	return e.Source.Unmap().WithZone("").String()
}
