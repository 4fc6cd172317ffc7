package filtertest

import (
	"net/url"
	"strings"
)

// Normalise does to a path what a gateway listener does before it chooses a
// route: percent-encoded unreserved characters are decoded, dot segments are
// removed (RFC 3986 section 6.2.2) and slashes merged. Encoded slashes stay as
// they are, and so does the query.
func Normalise(target string) string {
	path, query, hasQuery := strings.Cut(target, "?")
	var out []string
	segments := strings.Split(decodeUnreserved(path), "/")
	for i, s := range segments {
		last := i == len(segments)-1
		switch {
		case s == "..":
			if len(out) > 0 {
				out = out[:len(out)-1]
			}
		case s != "." && (s != "" || last):
			out = append(out, s)
			continue
		}
		if last {
			out = append(out, "")
		}
	}
	path = "/" + strings.Join(out, "/")
	if hasQuery {
		path += "?" + query
	}
	return path
}

func decodeUnreserved(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '%' && i+2 < len(path) {
			if c, err := url.PathUnescape(path[i : i+3]); err == nil && unreserved(c[0]) {
				b.WriteString(c)
				i += 2
				continue
			}
		}
		b.WriteByte(path[i])
	}
	return b.String()
}

// unreserved is the set of RFC 3986 section 2.3.
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}
