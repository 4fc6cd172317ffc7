package engine

import "bytes"

var (
	tokenSuffix     = []byte("/oauth2/token")
	authorizeSuffix = []byte("/oauth2/authorize")
)

// issuing reports whether a path, query included, is an issuing endpoint of the
// oauth2 plugin that protects its route: it ends in one of two suffixes, compared
// byte by byte, with one trailing slash allowed. The path must be normalised, and
// must be the one the route was chosen by: otherwise both could be led to
// different answers.
func issuing(path []byte) bool {
	if q := bytes.IndexByte(path, '?'); q >= 0 {
		path = path[:q]
	}
	if n := len(path); n > 0 && path[n-1] == '/' {
		path = path[:n-1]
	}
	return bytes.HasSuffix(path, tokenSuffix) || bytes.HasSuffix(path, authorizeSuffix)
}
