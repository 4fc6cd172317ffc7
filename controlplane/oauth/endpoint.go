package oauth

import (
	"net/url"
	"strings"
)

// endpoint is the purpose of a request.
type endpoint int

// The endpoints of an oauth2 plugin.
const (
	endpointUnknown endpoint = iota
	endpointToken
	endpointAuthorize
	endpointIntrospect
	endpointRevoke
	endpointMetadata
)

// The suffixes of the paths of endpoints, and the prefix of metadata.
const (
	pathToken      = "/oauth2/token" //nolint:gosec // a path, no credential
	pathAuthorize  = "/oauth2/authorize"
	pathIntrospect = "/oauth2/introspect"
	pathRevoke     = "/oauth2/revoke"
	// Source: RFC 8414 section 3.
	pathMetadata = "/.well-known/oauth-authorization-server"
)

var suffixes = []struct {
	path string
	is   endpoint
}{
	{pathToken, endpointToken}, {pathAuthorize, endpointAuthorize},
	{pathIntrospect, endpointIntrospect}, {pathRevoke, endpointRevoke},
}

// name returns the name of the endpoint in error messages.
func (e endpoint) name() string {
	switch e {
	case endpointToken:
		return "token endpoint"
	case endpointAuthorize:
		return "authorization endpoint"
	case endpointIntrospect:
		return "introspection endpoint"
	case endpointRevoke:
		return "revocation endpoint"
	case endpointMetadata:
		return "metadata endpoint"
	case endpointUnknown:
	}
	return "endpoint"
}

// identified reports whether answers of the endpoint name the issuer.
func (e endpoint) identified() bool {
	return e == endpointAuthorize || e == endpointIntrospect || e == endpointMetadata
}

// takesBody reports whether requests to the endpoint have parameters in a body.
func (e endpoint) takesBody() bool { return e != endpointUnknown && e != endpointMetadata }

// optional reports whether only plugins with further endpoints have this one.
func (e endpoint) optional() bool { return e != endpointToken && e != endpointAuthorize }

// recognise returns the endpoint of a normalised path, and the path of the issuer. The
// issuer's path comes before a suffix, and after the prefix of metadata. Suffixes are
// compared byte by byte; one trailing slash is allowed. No path below the prefix of metadata
// is another endpoint, because the filter lets such a path through without asking a plugin.
// The filter (filter/engine/path.go) must read these paths in the same way.
func recognise(path string) (is endpoint, issuer string) {
	trimmed := strings.TrimSuffix(path, "/")
	if issuer, ok := strings.CutPrefix(trimmed, pathMetadata); ok && (issuer == "" || issuer[0] == '/') {
		return endpointMetadata, issuer
	}
	for _, s := range suffixes {
		if issuer, ok := strings.CutSuffix(trimmed, s.path); ok {
			return s.is, issuer
		}
	}
	return endpointUnknown, ""
}

// sentPath returns a path as it was sent. EscapedPath alone does not: if the path contains a
// character that should have been escaped, it unescapes slashes that the filter saw escaped.
func sentPath(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}
