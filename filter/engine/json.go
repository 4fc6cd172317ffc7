package engine

import (
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of values. Deeper documents count as malformed.
const maxDepth = 64

// jsonScanner checks a document (RFC 8259) in one pass and without recursion. Every strict
// parser accepts what it accepts.
type jsonScanner struct {
	b  []byte
	at int
}

// eachMember visits the members of a document's top-level object. It passes the name as it
// is written between its quotes, the value, and the place of both. It reports whether the
// document is well-formed and its top level is an object. If not, the visits so far mean
// nothing.
func eachMember(doc []byte, visit func(name, value []byte, from, to int)) bool {
	s := jsonScanner{b: doc}
	if !utf8.Valid(doc) || !s.next('{') {
		return false
	}
	if s.next('}') {
		return s.end()
	}
	for {
		s.space()
		from := s.at
		if !s.str() {
			return false
		}
		name := doc[from+1 : s.at-1]
		if !s.next(':') {
			return false
		}
		s.space()
		start := s.at
		if !s.value() {
			return false
		}
		visit(name, doc[start:s.at], from, s.at)
		if s.next(',') {
			continue
		}
		return s.next('}') && s.end()
	}
}

func (s *jsonScanner) space() {
	for s.at < len(s.b) && (s.b[s.at] == ' ' || s.b[s.at] == '\t' || s.b[s.at] == '\n' || s.b[s.at] == '\r') {
		s.at++
	}
}

// next skips white space and consumes c.
func (s *jsonScanner) next(c byte) bool {
	s.space()
	if s.at < len(s.b) && s.b[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *jsonScanner) end() bool {
	s.space()
	return s.at == len(s.b)
}

// value consumes one value of any kind.
func (s *jsonScanner) value() bool {
	var objects uint64 // bit n: the container at depth n is an object
	depth := 0
	for {
		s.space()
		opened, ok := s.open(&objects, &depth)
		if !ok {
			return false
		}
		if opened {
			continue
		}
		if more, ok := s.close(&objects, &depth); !ok || !more {
			return ok
		}
	}
}

// open consumes a scalar or an empty container, or enters a container up to its
// first value.
func (s *jsonScanner) open(objects *uint64, depth *int) (opened, ok bool) {
	if s.at == len(s.b) {
		return false, false
	}
	switch c := s.b[s.at]; c {
	case '{', '[':
		s.at++
		if s.next(c + 2) { // } and ] follow their partners by two
			return false, true
		}
		if *depth == maxDepth {
			return false, false
		}
		*objects &^= 1 << *depth
		if c == '{' {
			*objects |= 1 << *depth
		}
		*depth++
		return true, c == '[' || s.key()
	case '"':
		return false, s.str()
	case 't':
		return false, s.literal("true")
	case 'f':
		return false, s.literal("false")
	case 'n':
		return false, s.literal("null")
	default:
		return false, s.number()
	}
}

// close consumes what follows a value: the ends of containers, up to a comma and the next
// value. more is false when the outermost value ends.
func (s *jsonScanner) close(objects *uint64, depth *int) (more, ok bool) {
	for *depth > 0 {
		object := *objects>>(*depth-1)&1 != 0
		if s.next(',') {
			return true, !object || s.key()
		}
		if object && !s.next('}') || !object && !s.next(']') {
			return false, false
		}
		*depth--
	}
	return false, true
}

func (s *jsonScanner) key() bool {
	s.space()
	return s.str() && s.next(':')
}

func (s *jsonScanner) literal(word string) bool {
	if len(s.b)-s.at < len(word) || string(s.b[s.at:s.at+len(word)]) != word {
		return false
	}
	s.at += len(word)
	return true
}

func (s *jsonScanner) str() bool {
	if s.at == len(s.b) || s.b[s.at] != '"' {
		return false
	}
	for s.at++; s.at < len(s.b); s.at++ {
		switch c := s.b[s.at]; {
		case c == '"':
			s.at++
			return true
		case c < 0x20:
			return false
		case c == '\\':
			if !s.escape() {
				return false
			}
		}
	}
	return false
}

// escape consumes an escape up to its last character.
func (s *jsonScanner) escape() bool {
	s.at++
	if s.at == len(s.b) {
		return false
	}
	switch s.b[s.at] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		if len(s.b)-s.at < 5 {
			return false
		}
		for range 4 {
			s.at++
			if unhex(s.b[s.at]) > 15 {
				return false
			}
		}
		return true
	default:
		return false
	}
}

func (s *jsonScanner) number() bool {
	if s.at < len(s.b) && s.b[s.at] == '-' {
		s.at++
	}
	if s.at < len(s.b) && s.b[s.at] == '0' {
		s.at++
	} else if !s.digits() {
		return false
	}
	if s.at < len(s.b) && s.b[s.at] == '.' {
		s.at++
		if !s.digits() {
			return false
		}
	}
	if s.at < len(s.b) && s.b[s.at]|0x20 == 'e' {
		s.at++
		if s.at < len(s.b) && (s.b[s.at] == '+' || s.b[s.at] == '-') {
			s.at++
		}
		return s.digits()
	}
	return true
}

func (s *jsonScanner) digits() bool {
	from := s.at
	for s.at < len(s.b) && '0' <= s.b[s.at] && s.b[s.at] <= '9' {
		s.at++
	}
	return s.at > from
}

// unescape decodes the inside of a checked string into scratch. fits is false if scratch is
// too short.
func unescape(raw, scratch []byte) (decoded []byte, fits bool) {
	out := scratch[:0]
	for len(raw) > 0 {
		var piece [utf8.UTFMax]byte
		n := 1
		if raw[0] != '\\' {
			piece[0], raw = raw[0], raw[1:]
		} else if raw[1] != 'u' {
			piece[0], raw = plainEscape(raw[1]), raw[2:]
		} else {
			var r rune
			r, raw = unicodeEscape(raw)
			n = utf8.EncodeRune(piece[:], r)
		}
		if len(out)+n > len(scratch) {
			return nil, false
		}
		out = append(out, piece[:n]...)
	}
	return out, true
}

func plainEscape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	default:
		return c
	}
}

// unicodeEscape decodes one character; half of a surrogate pair becomes U+FFFD.
func unicodeEscape(raw []byte) (r rune, rest []byte) {
	r, rest = hex4(raw[2:6]), raw[6:]
	if !utf16.IsSurrogate(r) {
		return r, rest
	}
	if len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(rest[2:6])); pair != utf8.RuneError {
			return pair, rest[6:]
		}
	}
	return utf8.RuneError, rest
}

func hex4(b []byte) (r rune) {
	for _, c := range b {
		r = r<<4 | rune(unhex(c))
	}
	return r
}
