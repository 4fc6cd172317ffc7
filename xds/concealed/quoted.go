package concealed

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// cutOff replaces the end of a text of more than 4096 bytes in Envoy
// (Config::Utility::truncateGrpcStatusMessage). The text before it may end with the beginning
// of a value.
const cutOff = "...(truncated)"

// begun is how many bytes of a value may remain before cutOff.
const begun = 1

// Quotes reports whether a text contains one of some values in any readable spelling, or the
// beginning of one before cutOff. A short value may be found by chance.
func Quotes(text string, values []string) bool {
	ends := strings.Split(text, cutOff)
	ends = ends[:len(ends)-1]
	quoted := func(form string) bool {
		return strings.Contains(text, form) || slices.ContainsFunc(ends, func(end string) bool { return endsWithin(end, form) })
	}
	for _, v := range values {
		if v != "" && slices.ContainsFunc(forms(v), quoted) {
			return true
		}
	}
	return false
}

// endsWithin reports whether a text ends in the middle of another one.
func endsWithin(text, form string) bool {
	for n := len(form) - 1; n > begun; n-- {
		if strings.HasSuffix(text, form[:n]) {
			return true
		}
	}
	return false
}

// encoded is the minimum length in bytes of a value whose base64 is searched for in parts. The
// parts of shorter values occur in most texts.
const encoded = 6

// forms returns the spellings of a value: unchanged, as a string in a message or in JSON,
// escaped for URLs, in hex, and in base64 at each of the three offsets within a longer text.
func forms(v string) []string {
	out := []string{v, escaped(v), url.QueryEscape(v), url.PathEscape(v), hex.EncodeToString([]byte(v)), strings.ToUpper(hex.EncodeToString([]byte(v)))}
	if b, err := json.Marshal(v); err == nil {
		out = append(out, string(b[1:len(b)-1]))
	}
	if len(v) < encoded {
		return append(out, base64.StdEncoding.EncodeToString([]byte(v)))
	}
	for shift := range 3 {
		for _, in := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			b := in.EncodeToString([]byte(strings.Repeat("\x00", shift) + v))
			out = append(out, b[4:len(b)-4])
		}
	}
	return out
}

// escaped returns a value as Envoy prints it in a message.
func escaped(v string) string {
	var b strings.Builder
	for _, c := range []byte(v) {
		switch {
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '"' || c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
