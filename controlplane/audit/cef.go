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
	h := e.head()
	for _, part := range []string{o.Vendor, h.product, version, h.class, h.name, strconv.Itoa(h.severity)} {
		b.WriteString("|" + inHeader.Replace(strings.ToValidUTF8(part, "\uFFFD")))
	}
	b.WriteByte('|')
	for i, f := range e.fields() {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(f.key + "=" + inValue.Replace(strings.ToValidUTF8(f.plain(), "\uFFFD")))
	}
	line := b.String()
	return []byte(line + " sig=" + s.Sign([]byte(line)))
}

// prefixHost is the host before the header. White space in it would move everything that follows.
func prefixHost(host string) string { return strings.Join(strings.Fields(host), "-") }
