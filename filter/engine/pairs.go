package engine

import "bytes"

// kind says how a name occurs in a query or body.
type kind uint8

const (
	// absent: the name does not occur.
	absent kind = iota
	// text: it occurs once, with a string.
	text
	// long: it occurs once, with a string longer than any credential.
	long
	// repeated: it occurs more than once, or with a list.
	repeated
	// other: it occurs once, with a value that is not a string: no value, one that does not
	// decode, or one of another type. A query or form with too many pairs counts as other
	// too, because it is not searched.
	other
)

// maxPairs bounds the number of pairs or parts that are searched. The work grows with their
// number, not with their length.
const maxPairs = 1000

var ampersand = []byte{'&'}

// param is the name of a credential in queries and bodies.
type param struct {
	name string
	// fold ignores the case of ASCII letters, because names that are headers too have no
	// case.
	fold bool
}

func (p *param) is(name []byte) bool {
	if len(name) != len(p.name) {
		return false
	}
	for i, c := range name {
		if p.fold {
			c = lower(c)
		}
		if c != p.name[i] {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// findPair searches a query or form for a name (the application/x-www-form-urlencoded
// parsing of the URL standard). It decodes the value into scratch, and only for text. It
// allocates nothing.
func findPair(pairs []byte, p *param, scratch []byte) (found kind, value []byte) {
	if bytes.Count(pairs, ampersand) >= maxPairs {
		return other, nil
	}
	for len(pairs) > 0 {
		var pair []byte
		pair, pairs = cutPair(pairs)
		name, raw, valued := cutValue(pair)
		if !p.matches(name) {
			continue
		}
		if found != absent {
			return repeated, nil
		}
		if !valued {
			found = other
			continue
		}
		found, value = decodeValue(raw, scratch)
	}
	if found != text {
		return found, nil
	}
	return text, value
}

func cutPair(pairs []byte) (pair, rest []byte) {
	if n := bytes.IndexByte(pairs, '&'); n >= 0 {
		return pairs[:n], pairs[n+1:]
	}
	return pairs, nil
}

func cutValue(pair []byte) (name, value []byte, valued bool) {
	if n := bytes.IndexByte(pair, '='); n >= 0 {
		return pair[:n], pair[n+1:], true
	}
	return pair, nil, false
}

// matches compares the name with one that is still encoded.
func (p *param) matches(encoded []byte) bool {
	n := 0
	for len(encoded) > 0 {
		c, rest, ok := decodeByte(encoded)
		if !ok || n == len(p.name) {
			return false
		}
		if p.fold {
			c = lower(c)
		}
		if c != p.name[n] {
			return false
		}
		n++
		encoded = rest
	}
	return n == len(p.name)
}

// decodeValue decodes a value into scratch. The result is other if the value contains a
// semicolon, at which other parsers end a value, or a percent sign without two digits.
func decodeValue(raw, scratch []byte) (kind, []byte) {
	if bytes.IndexByte(raw, ';') >= 0 {
		return other, nil
	}
	n, found := 0, text
	for len(raw) > 0 {
		c, rest, ok := decodeByte(raw)
		if !ok {
			return other, nil
		}
		raw = rest
		if n == len(scratch) {
			found = long
			continue
		}
		scratch[n] = c
		n++
	}
	return found, scratch[:n]
}

// decodeByte decodes the first character of b. b must not be empty.
func decodeByte(b []byte) (c byte, rest []byte, ok bool) {
	switch b[0] {
	case '+':
		return ' ', b[1:], true
	case '%':
		if len(b) < 3 {
			return 0, nil, false
		}
		high, low := unhex(b[1]), unhex(b[2])
		return high<<4 | low, b[3:], high < 16 && low < 16
	default:
		return b[0], b[1:], true
	}
}

// unhex returns the value of a hexadecimal digit, or 255.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	default:
		return 255
	}
}

// dropPairs removes the pairs of the given names in place. It does not encode the others
// anew.
func dropPairs(pairs []byte, drop func(name []byte) bool) []byte {
	kept := pairs[:0]
	for rest, first := pairs, true; len(rest) > 0; {
		var pair []byte
		pair, rest = cutPair(rest)
		if name, _, _ := cutValue(pair); drop(name) {
			continue
		}
		if !first {
			kept = append(kept, '&')
		}
		kept, first = append(kept, pair...), false
	}
	return kept
}
