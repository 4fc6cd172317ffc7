package engine

import "bytes"

// endpoint is what a path is to the oauth2 plugin that protects its route.
type endpoint uint8

const (
	noEndpoint endpoint = iota
	// issuingEndpoint goes to the OAuth server if the other plugins let it.
	issuingEndpoint
	// publicEndpoint goes there in any case.
	publicEndpoint
)

var (
	issuingSuffixes = [][]byte{[]byte("/oauth2/token"), []byte("/oauth2/authorize")}
	furtherSuffixes = [][]byte{[]byte("/oauth2/introspect"), []byte("/oauth2/revoke")}
	// metadataPath may be followed by the path of an issuer. Source: RFC 8414
	// section 3.1.
	metadataPath = []byte("/.well-known/oauth-authorization-server")
)

// endpointOf classifies a path, query included. Issuing endpoints end in one of
// two suffixes, compared byte by byte, with one trailing slash allowed; further
// endpoints are there if the plugin has them. No path below that of metadata is
// an issuing one: the OAuth server reads paths the same way, and what passes by
// the other plugins must be nothing else to it. The path must be normalised, and
// must be the one the route was chosen by: otherwise both could be led to
// different answers.
func endpointOf(path []byte, further bool) endpoint {
	if q := bytes.IndexByte(path, '?'); q >= 0 {
		path = path[:q]
	}
	if bytes.HasPrefix(path, metadataPath) && (len(path) == len(metadataPath) || path[len(metadataPath)] == '/') {
		if further {
			return publicEndpoint
		}
		return noEndpoint
	}
	if n := len(path); n > 0 && path[n-1] == '/' {
		path = path[:n-1]
	}
	if hasOneSuffix(path, issuingSuffixes) || further && hasOneSuffix(path, furtherSuffixes) {
		return issuingEndpoint
	}
	return noEndpoint
}

func hasOneSuffix(path []byte, suffixes [][]byte) bool {
	for _, s := range suffixes {
		if bytes.HasSuffix(path, s) {
			return true
		}
	}
	return false
}

// query is what follows the first question mark of a path.
func query(path []byte) []byte {
	if q := bytes.IndexByte(path, '?'); q >= 0 {
		return path[q+1:]
	}
	return nil
}
