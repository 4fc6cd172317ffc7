package audit

import (
	"strconv"
	"strings"
)

// inHeader escapes what the header of a line gives a meaning. A header has no line breaks, and the
// format has no way to write one there.
var inHeader = strings.NewReplacer(`\`, `\\`, `|`, `\|`, "\n", " ", "\r", " ")

// inValue escapes what the extension of a line gives a meaning.
var inValue = strings.NewReplacer(`\`, `\\`, `=`, `\=`, "\n", `\n`, "\r", `\r`)

// CEF returns an event as one line of the Common Event Format. The signature is of the line without
// " sig=" and what follows.
func (o Origin) CEF(e *Event, s *Signer) []byte {
	var b strings.Builder
	b.WriteString(stamp(e.Time) + " " + prefixHost(o.Host) + " CEF:" + strconv.Itoa(cefVersion))
	for _, part := range []string{
		o.Vendor, product, version, prefixMethod + string(e.Method), prefixOutcome + string(e.Outcome), strconv.Itoa(e.Outcome.severity()),
	} {
		b.WriteString("|" + inHeader.Replace(strings.ToValidUTF8(part, "\uFFFD")))
	}
	b.WriteByte('|')
	for i, p := range [][2]string{
		{"rt", strconv.FormatInt(e.Time.UnixMilli(), 10)},
		{"src", e.source()},
		{"request", e.Request},
		{"success", strconv.FormatBool(e.Outcome == Success)},
		{"org_id", e.Organization},
		{"portal_id", e.Portal},
		{"principal_id", e.Principal},
		{"trace_id", e.Trace},
		{"event_id", e.ID},
		{"user_agent", e.UserAgent},
	} {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(p[0] + "=" + inValue.Replace(strings.ToValidUTF8(p[1], "\uFFFD")))
	}
	line := b.String()
	return []byte(line + " sig=" + s.Sign([]byte(line)))
}

// prefixHost is the host before the header. White space in it would move everything that follows.
func prefixHost(host string) string { return strings.Join(strings.Fields(host), "-") }
