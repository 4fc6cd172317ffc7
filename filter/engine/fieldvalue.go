package engine

import (
	"encoding/binary"

	"github.com/meshgate/meshgate/filter/contract"
)

// validRecord reports whether every field of a packed record may be sent as a header value.
func validRecord(record []byte, fields *[contract.NumFields]contract.Span) bool {
	if !printable(record[contract.PackedHeader:]) {
		return false
	}
	for i := range fields {
		if !trimmed(cut(record, fields[i])) {
			return false
		}
	}
	return true
}

// validValue reports whether a header value arrives as it was sent. It must not contain
// control characters other than the tab, because proxies refuse them or they would start a
// new header. It must not begin or end with white space, because recipients drop it: " bob"
// would arrive as "bob". Source: RFC 9110 section 5.5, RFC 9113 section 8.2.1.
func validValue(s string) bool {
	b := []byte(s)
	return printable(b) && trimmed(b)
}

// validName reports whether s is a lower-case field name (RFC 9110 section 5.1).
func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case c == '-' || c == '_' || c == '.' || c == '!' || c == '#' || c == '$' || c == '%' || c == '&':
		case c == '\'' || c == '*' || c == '+' || c == '^' || c == '`' || c == '|' || c == '~':
		default:
			return false
		}
	}
	return s != ""
}

func trimmed(b []byte) bool {
	n := len(b)
	return n == 0 || b[0] != ' ' && b[0] != '\t' && b[n-1] != ' ' && b[n-1] != '\t'
}

// printable looks at eight bytes at a time, because it runs for every accepted request.
func printable(b []byte) bool {
	for len(b) >= 8 {
		if suspicious(binary.LittleEndian.Uint64(b)) && !printableBytes(b[:8]) {
			return false
		}
		b = b[8:]
	}
	return printableBytes(b)
}

// suspicious holds if any byte of x is below 0x20 or is 0x7f. A borrow between bytes may
// make it hold for other values too, but it never misses one.
func suspicious(x uint64) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	below := (x - ones*0x20) &^ x
	del := x ^ ones*0x7f
	return (below|(del-ones)&^del)&tops != 0
}

func printableBytes(b []byte) bool {
	for _, c := range b {
		if c < 0x20 && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
