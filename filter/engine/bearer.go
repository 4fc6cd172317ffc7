package engine

// bearer finds the token in the value of the credential's header. If the value has two words
// and the first is "bearer" or "token" in any case, the second is the token, and schemed is
// true. Any other value is itself the token, so a header may hold the bare token. An empty
// value yields an empty token.
//
// Source: RFC 6750 section 2.1. The bare form and the scheme "token" are what clients of
// such gateways send.
func bearer(value []byte) (token []byte, schemed bool) {
	first, rest := word(value)
	second, rest := word(rest)
	third, _ := word(rest)
	if len(second) != 0 && len(third) == 0 && isScheme(first) {
		return second, true
	}
	return value, false
}

// word returns the first word of b and the bytes after it.
func word(b []byte) (w, rest []byte) {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	n := 0
	for n < len(b) && !isSpace(b[n]) {
		n++
	}
	return b[:n], b[n:]
}

// isSpace reports whether c is ASCII white space. Proxies pass blanks and tabs only; the
// other characters are included so that no two parsers disagree about a value.
func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

func isScheme(w []byte) bool { return foldsTo(w, "bearer") || foldsTo(w, "token") }

// foldsTo compares w with a lower-case word. It ignores case for ASCII letters only.
func foldsTo(w []byte, lower string) bool {
	if len(w) != len(lower) {
		return false
	}
	for i := range w {
		if w[i]|0x20 != lower[i] {
			return false
		}
	}
	return true
}
