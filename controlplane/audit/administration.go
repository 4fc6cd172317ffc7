package audit

import (
	"strconv"
	"strings"
)

// Class is what has happened to the control plane.
type Class string

// The classes.
const (
	// Change is a resource that was created, updated or deleted.
	Change Class = "CHANGE"
	// Refusal is a call of an administration API that was refused, or a number of them.
	Refusal Class = "REFUSAL"
	// Trial is nothing at all: somebody tries out a receiver.
	Trial Class = "TEST"
)

// prefixOwn stands for class and outcome of what is no login.
const prefixOwn = "ADMINISTRATION_"

// Administration is what an event says of the control plane itself. It holds no secrets: its author must
// have removed them.
type Administration struct {
	Class Class `json:"class"`
	// Actor is who made the change or the call: its kind, a colon and its name; empty if that is not known.
	Actor string `json:"actor,omitempty"`
	// API is that of the call: mesh, gateway or cloud; empty for a change from a file.
	API string `json:"api,omitempty"`
	// Action is created, updated or deleted, of a change.
	Action string `json:"action,omitempty"`
	// Kind and Name are those of the resource; Name is empty if the event sums up Count of them. Scoping
	// says what Scope is the name of. Title is what people call a resource whose name is an id.
	Kind    string `json:"kind,omitempty"`
	Scoping string `json:"scoping,omitempty"`
	Scope   string `json:"scope,omitempty"`
	Name    string `json:"name,omitempty"`
	Title   string `json:"title,omitempty"`
	// Cause is the resource with which this one was changed, as kind and name; empty if it was asked for.
	Cause string `json:"cause,omitempty"`
	// Count is how many changes or refusals the event sums up; 0 is the same as 1.
	Count int `json:"count,omitempty"`
	// Members are the JSON pointers of what differs, as a list in JSON; More counts those left out.
	Members string `json:"members,omitempty"`
	More    int    `json:"more,omitempty"`
	// Before and After are the resource in JSON; empty if there is none. Cut says that something long
	// is missing in them.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	Cut    bool   `json:"cut,omitempty"`
	// Status is that of a refusal, Reason its code.
	Status int    `json:"status,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// outcome is how it ended, for the name of the event.
func (a *Administration) outcome() string {
	switch a.Class {
	case Change:
		return strings.ToUpper(a.Action)
	case Refusal:
		return "REFUSED_" + strconv.Itoa(a.Status)
	case Trial:
	}
	return string(a.Class)
}

// severity is 0 to 10: a call that was refused for who made it is worse than one of nobody, and what is
// taken away is worse than what is added.
func (a *Administration) severity() int {
	const (
		statusForbidden = 403
		deleted         = "deleted"
	)
	switch {
	case a.Class == Trial:
		return 0
	case a.Class == Refusal && a.Status == statusForbidden:
		return 6
	case a.Class == Refusal, a.Action == deleted:
		return 4
	}
	return 2
}

// administration lists the members of an event about the control plane itself.
func (e *Event) administration() []field {
	a := e.Administration
	out := append(
		make([]field, 0, mostMembers),
		number("rt", e.Time.UnixMilli()),
		text("src", e.source()),
		text("request", e.Request),
		truth("success", a.Class == Change),
		text("org_id", e.Organization),
		text("principal_id", a.Actor),
		text("api", a.API),
	)
	count := number("count", int64(max(a.Count, 1)))
	switch a.Class {
	case Change:
		out = append(
			out, text("action", a.Action), text("resource_kind", a.Kind), text("resource_scoping", a.Scoping), text("resource_scope", a.Scope),
			text("resource_name", a.Name), text("resource_title", a.Title), text("cause", a.Cause), count,
			text("members", a.Members), number("more", int64(a.More)), text("before", a.Before), text("after", a.After), truth("cut", a.Cut),
		)
	case Refusal:
		out = append(out, number("status", int64(a.Status)), text("reason", a.Reason), text("resource_kind", a.Kind), text("resource_name", a.Name), count)
	case Trial:
	}
	return append(out, text("trace_id", e.Trace), text("event_id", e.ID), text("user_agent", e.UserAgent))
}
