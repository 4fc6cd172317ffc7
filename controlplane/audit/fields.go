package audit

import (
	"strconv"
	"unicode/utf8"
)

// field is a member of an event in both formats. Its value is a text, a number or a truth. An event is
// encoded for each of its deliveries, so a value knows what it is instead of being asked.
type field struct {
	key    string
	form   form
	text   string
	number int64 // of a truth: 0 or 1
}

// form says what the value of a field is.
type form uint8

const (
	formText form = iota
	formNumber
	formTruth
)

func text(key, value string) field         { return field{key: key, text: value} }
func number(key string, value int64) field { return field{key: key, form: formNumber, number: value} }

func truth(key string, value bool) field {
	f := field{key: key, form: formTruth}
	if value {
		f.number = 1
	}
	return f
}

// plain is the value as a text.
func (f *field) plain() string {
	switch f.form {
	case formNumber:
		return strconv.FormatInt(f.number, 10)
	case formTruth:
		return strconv.FormatBool(f.number != 0)
	case formText:
	}
	return f.text
}

// appendJSON appends the value as JSON.
func (f *field) appendJSON(b []byte) []byte {
	switch f.form {
	case formNumber:
		return strconv.AppendInt(b, f.number, 10)
	case formTruth:
		return strconv.AppendBool(b, f.number != 0)
	case formText:
	}
	return appendText(b, f.text)
}

// appendText appends a text as JSON, as encoding/json writes it without escapes for HTML: receivers verify
// signatures of these very bytes. Bytes that are no UTF-8 become U+FFFD.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	done := 0 // what of s is in b
	for i := 0; i < len(s); {
		c, size := rune(s[i]), 1
		if c >= utf8.RuneSelf {
			c, size = utf8.DecodeRuneInString(s[i:])
		}
		if escaped(c, size) {
			b = appendEscape(append(b, s[done:i]...), c)
			done = i + size
		}
		i += size
	}
	return append(append(b, s[done:]...), '"')
}

// The line and paragraph separators end lines in JavaScript.
const (
	lineSeparator      = '\u2028'
	paragraphSeparator = '\u2029'
)

// escaped reports whether a character does not stand for itself. One that is no UTF-8 has the size 1.
func escaped(c rune, size int) bool {
	return c < ' ' || c == '"' || c == '\\' || c == lineSeparator || c == paragraphSeparator || c == utf8.RuneError && size == 1
}

// appendEscape appends the escape of a character.
func appendEscape(b []byte, c rune) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', byte(c))
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[c>>12&0xf], digits[c>>8&0xf], digits[c>>4&0xf], digits[c&0xf])
}
