package policy

import (
	"fmt"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/reserved"
)

// These are texts of violations that several policies share (mesh API, validation).
const (
	TextDefined      = "has to be defined"
	TextPositive     = "has to be greater than 0"
	TextPositiveIf   = "has to be greater than 0 when defined"
	TextPercentRange = "has to be in [0.0 - 100.0] range"
	TextVisible      = "must not have control characters"
	TextWhole        = "must be at least 1ms"
	TextLong         = "must not have more than %d bytes"
	TextMany         = "must have at most %d elements"

	textReserved = "host header and HTTP/2 pseudo-headers are not allowed to be modified"
)

// MaxHeader is how long the name or value of a header may be that Envoy writes, in bytes. Percent
// signs are doubled on the way to it (draft.Literal), and then it takes 16384.
const MaxHeader = 8192

// MaxHeaders is how many headers may be in a list. Envoy takes 1000 of them.
const MaxHeaders = 64

// Violations collects what is wrong with a spec, in the order of validation.
type Violations []fault.Violation

// Add records a violation.
func (v *Violations) Add(path, format string, args ...any) {
	*v = append(*v, fault.Violation{Path: path, Message: fmt.Sprintf(format, args...)})
}

// Positive requires that a duration, if given, is greater than zero, and [Violations.Whole].
func (v *Violations) Positive(path string, d *mesh.Duration) {
	if d != nil && *d <= 0 {
		v.Add(path, TextPositiveIf)
	}
	v.Whole(path, d)
}

// Whole requires that a duration, if given and greater than zero, is at least a millisecond.
// Envoy counts whole milliseconds, and of most durations 0 means that there is no limit.
func (v *Violations) Whole(path string, d *mesh.Duration) {
	if d != nil && *d > 0 && time.Duration(*d) < time.Millisecond {
		v.Add(path, TextWhole)
	}
}

// Percent requires that a number, if given, is at most 100.
func (v *Violations) Percent(path string, n *uint32) {
	if n != nil && *n > 100 {
		v.Add(path, TextPercentRange)
	}
}

// Header requires that a header, whose name is not empty, can be set as it is. The path is
// that of its key and value.
func (v *Violations) Header(path, key, value string) {
	switch {
	case strings.HasPrefix(key, ":") || strings.EqualFold(key, "host"):
		v.Add(path+".key", textReserved)
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r) }):
		v.Add(path+".key", "must be a header name")
	case len(key) > MaxHeader:
		v.Add(path+".key", TextLong, MaxHeader)
	case len(value) > MaxHeader:
		v.Add(path+".value", TextLong, MaxHeader)
	case !Visible(value):
		v.Add(path+".value", TextVisible)
	default:
		v.Sent(path+".key", key)
		v.SentLiteral(path+".value", value)
	}
}

// Sent requires that agents accept a text that reaches proxies as it is.
func (v *Violations) Sent(path, text string) {
	if wrong := reserved.Wrong(text); wrong != "" {
		v.Add(path, "%s", wrong)
	}
}

// SentLiteral is [Violations.Sent] for a text that reaches proxies through draft.Literal.
func (v *Violations) SentLiteral(path, text string) {
	if wrong := reserved.WrongLiteral(text); wrong != "" {
		v.Add(path, "%s", wrong)
	}
}

// Visible reports whether a text can be sent in a header.
func Visible(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
