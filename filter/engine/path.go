package engine

import "bytes"

// endpoint says what a path means to the oauth2 plugin that protects its route.
type endpoint uint8

const (
	noEndpoint endpoint = iota
	// issuingEndpoint goes to the OAuth server if the other plugins allow it.
	issuingEndpoint
	// publicEndpoint goes to the OAuth server in any case.
	publicEndpoint
)

var (
	issuingSuffixes = [][]byte{[]byte("/oauth2/token"), []byte("/oauth2/authorize")}
	furtherSuffixes = [][]byte{[]byte("/oauth2/introspect"), []byte("/oauth2/revoke")}
	// metadataPath may be followed by the path of an issuer. Source: RFC 8414 section 3.1.
	metadataPath = []byte("/.well-known/oauth-authorization-server")
)

// endpointOf classifies a path with its query. The path of an issuing endpoint ends in one
// of two suffixes, compared byte by byte, with one trailing slash allowed. The further
// endpoints exist only if the plugin has them. No path below that of the metadata is an
// issuing endpoint. The OAuth server reads paths the same way: it must not take a request
// for anything else that passed without the other plugins. The path must be normalised, and
// must be the path by which the route was chosen; otherwise the router and this function
// could disagree.
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

// query returns what follows the first question mark of a path.
func query(path []byte) []byte {
	if q := bytes.IndexByte(path, '?'); q >= 0 {
		return path[q+1:]
	}
	return nil
}
