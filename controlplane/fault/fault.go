// Package fault is the only error type of the control plane. Domain code returns a coded
// error with a detail that is safe to show. Each API has one table from codes to its own
// error document. An error without a code is shown as internal, and only the log shows its
// cause.
package fault

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Code classifies an error, independently of HTTP.
type Code string

// The codes.
const (
	Internal    Code = "internal"           // unexpected; the cause is for the log only
	Invalid     Code = "invalid"            // the input breaks a rule; Violations say which
	NotFound    Code = "not_found"          // the addressed resource does not exist
	Exists      Code = "exists"             // the name is taken
	Conflict    Code = "conflict"           // compare-and-swap lost
	Unique      Code = "unique_violation"   // another resource holds a unique value
	Dangling    Code = "dangling_reference" // a referenced resource does not exist
	Referenced  Code = "referenced"         // others still reference the resource
	Forbidden   Code = "forbidden"          // the caller may not do this
	Denied      Code = "unauthenticated"    // the caller did not prove who it is
	Unsupported Code = "unsupported"        // understood, but not offered
	Unavailable Code = "unavailable"        // cannot be answered now; try again
	TooLarge    Code = "too_large"          // a limit on size was exceeded
	Unstored    Code = "unstored"           // the disk does not take it now; nothing was changed
)

// Violation is one broken rule at one place of the input.
type Violation struct {
	// Path is the path of the field in the spelling of the API that carried the input, such
	// as config.scopes or redirect_uris.1; empty for the whole entity.
	Path string
	// Message says what is wrong, without the path.
	Message string
}

// Error is a coded error.
type Error struct {
	Code Code
	// Detail is one sentence for the user.
	Detail string
	// Violations lists all broken rules, not only the first.
	Violations []Violation
	// Subject holds what an API needs for its error document, such as the kind and the values
	// of a unique violation; nil if the detail is enough.
	Subject any
	// After is the time after which the caller may try again, for what cannot be answered because there is too
	// much to do; 0 if nobody knows.
	After time.Duration
	cause error
}

// New returns an error with a detail.
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// Wrap returns an error that keeps its cause for the log.
func Wrap(code Code, cause error, format string, args ...any) *Error {
	return &Error{Code: code, Detail: fmt.Sprintf(format, args...), cause: cause}
}

// Violated returns an Invalid error; nil if there are no violations.
func Violated(vs []Violation) error {
	if len(vs) == 0 {
		return nil
	}
	return &Error{Code: Invalid, Detail: "the input is not valid", Violations: vs}
}

// Shown is what a caller may read: the detail and the violations, without the cause.
func (e *Error) Shown() string {
	var b strings.Builder
	b.WriteString(e.Detail)
	for i, v := range e.Violations {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		b.WriteString(sep)
		if v.Path != "" {
			b.WriteString(v.Path + ": ")
		}
		b.WriteString(v.Message)
	}
	return b.String()
}

// Error implements error, with the cause. It is for the log; callers get [Error.Shown].
func (e *Error) Error() string {
	if e.cause == nil {
		return e.Shown()
	}
	return e.Shown() + ": " + e.cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// With returns the error with a subject attached.
func (e *Error) With(subject any) *Error {
	c := *e
	c.Subject = subject
	return &c
}

// Again returns the error with the time after which the caller may try again.
func (e *Error) Again(after time.Duration) *Error {
	c := *e
	c.After = after
	return &c
}

// AfterOf returns the time after which the caller may try again, as the first error in the chain says that
// knows it; 0 if none does.
func AfterOf(err error) time.Duration {
	for e, ok := errors.AsType[*Error](err); ok; e, ok = errors.AsType[*Error](e.cause) {
		if e.After > 0 {
			return e.After
		}
	}
	return 0
}

// CodeOf returns the code of the first coded error in the chain, Internal for
// any other error and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}

// Is reports whether err carries the code.
func Is(err error, code Code) bool { return err != nil && CodeOf(err) == code }
