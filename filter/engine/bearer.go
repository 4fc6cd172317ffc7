package engine

// bearer finds the token in the value of the credential's header. Two words of
// which the first is "bearer" or "token" in any case yield the second; anything
// else is a token as it stands, so a header may hold the bare token. schemed
// tells the first form. An empty value yields an empty token.
//
// Source: RFC 6750 section 2.1; the bare form and the scheme "token" are what
// clients of such gateways send.
func bearer(value []byte) (token []byte, schemed bool) {
	first, rest := word(value)
	second, rest := word(rest)
	third, _ := word(rest)
	if len(second) != 0 && len(third) == 0 && isScheme(first) {
		return second, true
	}
	return value, false
}

// word returns the first word of b and what follows it.
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

// isSpace holds for the white space of ASCII. Proxies pass blanks and tabs only;
// the others are here so that no two parsers can disagree about a value.
func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

func isScheme(w []byte) bool { return foldsTo(w, "bearer") || foldsTo(w, "token") }

// foldsTo compares with a word of lower-case letters, ignoring the case of ASCII
// only.
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
