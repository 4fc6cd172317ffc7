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

// cutOff is what Envoy puts in the place of the rest of a text of more than 4096 bytes
// (Config::Utility::truncateGrpcStatusMessage). What stands before it can be the beginning
// of a value.
const cutOff = "...(truncated)"

// begun is how much of a value in bytes may stand where a text was cut off.
const begun = 1

// Quotes reports whether a text holds one of some values, in any spelling in which it can
// still be read, or the beginning of one where it was cut off. Of a short one that can be so
// by chance.
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

// encoded is the least length of a value in bytes of which parts of base64 are looked for:
// those of shorter ones are in most texts.
const encoded = 6

// forms are the spellings of a value: as it is, as a text of a message or of JSON quotes
// it, escaped for URLs, in hex, and in base64 at each of the three places in a longer text.
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

// escaped is a value as Envoy prints it in a message.
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
