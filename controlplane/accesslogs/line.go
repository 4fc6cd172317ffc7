package accesslogs

import (
	"net"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/meshgate/meshgate/xds/logsink"
)

// maxLine bounds a line in bytes. What is longer is cut.
const maxLine = 64 << 10

// cutMark ends a line that was cut.
const cutMark = "...[cut]"

// line returns the body of a record as one line with its end. Values of requests cannot begin
// another line: no format contains control characters, so all of them come from values, and are
// escaped.
func line(body *commonv1.AnyValue, address string) []byte {
	var b strings.Builder
	switch v := body.GetValue().(type) {
	case *commonv1.AnyValue_ArrayValue:
		for _, part := range v.ArrayValue.GetValues() {
			how := part.GetArrayValue().GetValues()
			if len(how) == 0 {
				escape(&b, part.GetStringValue())
				continue
			}
			escape(&b, addressed(how[0].GetStringValue(), address))
		}
	default:
		escape(&b, body.GetStringValue())
	}
	out := b.String()
	if len(out) > maxLine {
		out = strings.ToValidUTF8(out[:maxLine-len(cutMark)], "") + cutMark
	}
	return append([]byte(out), '\n')
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
