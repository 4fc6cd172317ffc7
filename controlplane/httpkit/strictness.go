package httpkit

import (
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Strictness says what happens to unknown members of a body. A member that is dropped
// silently leaves its default in force, which may open access.
type Strictness string

// Values of ?fieldValidation.
const (
	Strict Strictness = "strict" // the body is refused
	Warn   Strictness = "warn"   // the rest is stored, and the answer says what was dropped
	Ignore Strictness = "ignore" // the rest is stored
)

const (
	// ArgFieldValidation is the parameter of the query.
	ArgFieldValidation = "fieldValidation"
	// TextFieldValidation says which values are valid.
	TextFieldValidation = `must be one of ["strict", "warn", "ignore"]`
)

// ParseStrictness reads the value of the parameter. An empty value means Strict.
func ParseStrictness(value string) (s Strictness, ok bool) {
	switch s = Strictness(value); s {
	case "":
		return Strict, true
	case Strict, Warn, Ignore:
		return s, true
	}
	return "", false
}

// Bounds of warnings. Their paths contain names that the client has chosen. If they made a
// header too long, proxies on the way would refuse the whole answer after the write was
// made.
const (
	maxWarnings      = 100
	maxWarningPath   = 200
	maxWarningHeads  = 10
	maxWarningHeader = 4 << 10
)

// Warnings returns a text for each of the dropped members, and adds the texts to the header
// as far as there is room (RFC 9111, 5.5: code 299).
func Warnings(h http.Header, dropped []fault.Violation) []string {
	over := len(dropped) - maxWarnings
	if over > 0 {
		dropped = dropped[:maxWarnings]
	}
	var list []string
	for _, v := range dropped {
		list = append(list, short(v.Path)+": "+v.Message)
	}
	if over > 0 {
		list = append(list, "and "+strconv.Itoa(over)+" more")
	}
	room := maxWarningHeader
	for i, text := range list {
		value := "299 - " + strconv.QuoteToASCII(text)
		if room -= len(value); room < 0 || i == maxWarningHeads {
			break
		}
		h.Add("Warning", value)
	}
	return list
}

// short removes the middle of a path that is too long, because its end names the member.
func short(path string) string {
	if len(path) <= maxWarningPath {
		return path
	}
	head, tail := path[:maxWarningPath/2], path[len(path)-maxWarningPath/2:]
	for !utf8.ValidString(head) && len(head) > maxWarningPath/2-utf8.UTFMax {
		head = head[:len(head)-1]
	}
	tail = strings.TrimLeftFunc(tail, func(r rune) bool { return r == utf8.RuneError })
	return head + "…" + tail
}
