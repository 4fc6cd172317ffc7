package accesslogs

import (
	"bytes"
	"encoding/json"
	"iter"
	"net"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/meshgate/meshgate/xds/logsink"
)

// maxLine bounds a line in bytes, and maxPart what comes from one value of an object, so that
// nobody can have other members cut off by a long one. Lines of text arrive as Envoy has made
// them: nobody can say there where a value ends.
const (
	maxLine = 256 << 10
	maxPart = 16 << 10
	// maxKey is how much of the share of a member, in bytes, is for its key and the marks around
	// it. minPart is the least of a value that is shown, whatever the number of members.
	maxKey  = 2 << 10
	minPart = 256
)

// cutMark ends a line that was cut.
const cutMark = "...[cut]"

// line returns the body of a record as one line with its end. Values of requests cannot begin
// another line: no format contains control characters, so all of them come from values, and are
// escaped.
func line(body *commonv1.AnyValue, address string) []byte {
	if object := body.GetKvlistValue(); object != nil {
		return jsonLine(object.GetValues(), address)
	}
	var b strings.Builder
	for part := range parts(body, address) {
		escape(&b, part)
	}
	out := b.String()
	if len(out) > maxLine {
		out = strings.ToValidUTF8(out[:maxLine-len(cutMark)], "") + cutMark
	}
	return append([]byte(out), '\n')
}

// jsonLine returns an object as one line. Where a line is too long, all members are cut to their
// share of it, so that nobody can have other members left out.
func jsonLine(members []*commonv1.KeyValue, address string) []byte {
	out := object(members, address, maxPart)
	if len(out) > maxLine {
		out = object(members, address, max(minPart, maxLine/len(members)-maxKey))
	}
	return append(out, '\n')
}

// object returns an object whose values have at most limit bytes each.
func object(members []*commonv1.KeyValue, address string, limit int) []byte {
	out := []byte{'{'}
	for _, m := range members {
		var value strings.Builder
		for part := range parts(m.GetValue(), address) {
			value.WriteString(part)
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, quoted(m.GetKey())...), ':')
		out = append(out, quoted(within(value.String(), limit))...)
	}
	return append(out, '}')
}

// within returns a text, or as much of it as has at most limit bytes when it is quoted, with a mark.
// What is not UTF-8 and control characters have six bytes then.
func within(text string, limit int) string {
	size := 0
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && n == 1, unicode.IsControl(r), r == '\u2028', r == '\u2029':
			size += len(`\u0000`)
		case r == '"', r == '\\':
			size += 2
		default:
			size += n
		}
		if size > limit {
			return text[:i] + cutMark
		}
		i += n
	}
	return text
}

// quoted returns a text as JSON without control characters, also those that JSON permits. What is
// not UTF-8 is replaced.
func quoted(text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a text always encodes
	out := bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
	if !bytes.ContainsFunc(out, unicode.IsControl) {
		return out
	}
	var escaped strings.Builder
	escape(&escaped, string(out))
	return []byte(escaped.String())
}

// parts yields the texts that a value consists of.
func parts(value *commonv1.AnyValue, address string) iter.Seq[string] {
	return func(yield func(string) bool) {
		list := value.GetArrayValue()
		if list == nil {
			yield(value.GetStringValue())
			return
		}
		for _, part := range list.GetValues() {
			said := part.GetStringValue()
			if how := part.GetArrayValue().GetValues(); len(how) > 0 {
				said = addressed(how[0].GetStringValue(), address)
			}
			if !yield(said) {
				return
			}
		}
	}
}

// addressed returns what stands for the address of the proxy.
func addressed(how, address string) string {
	switch {
	case address == "":
		return "-"
	case how == logsink.AddressWithPort:
		return net.JoinHostPort(address, "0")
	}
	return address
}

// escape writes a text without control characters and ends of lines. A backslash stays, so that
// lines look as Envoy formats them; an escaped character cannot be told from its escape.
func escape(b *strings.Builder, text string) {
	if b.Len() > maxLine {
		return
	}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(text[i])|0x100, 16)[1:])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsControl(r), r == '\u2028', r == '\u2029':
			b.WriteString(`\u` + strconv.FormatUint(uint64(r)|0x10000, 16)[1:]) //nolint:gosec // not negative
		default:
			b.WriteString(text[i : i+n])
		}
		i += n
	}
}
