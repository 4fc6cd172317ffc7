package oauth

import (
	"net/url"
	"strings"
)

// endpoint is what a request is for.
type endpoint int

// Endpoints of an oauth2 plugin.
const (
	endpointUnknown endpoint = iota
	endpointToken
	endpointAuthorize
	endpointIntrospect
	endpointRevoke
	endpointMetadata
)

// Suffixes of paths, and the prefix at which metadata are.
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

// name is the endpoint in sentences.
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

// takesBody reports whether requests for the endpoint say something in a body.
func (e endpoint) takesBody() bool { return e != endpointUnknown && e != endpointMetadata }

// optional reports whether only plugins with further endpoints have this one.
func (e endpoint) optional() bool { return e != endpointToken && e != endpointAuthorize }

// recognise says which endpoint a normalised path is, and what precedes it: the
// path of the issuer; metadata are followed by it. Suffixes are compared byte by
// byte, one trailing slash is allowed. Below the place of metadata there is no
// other endpoint, for the filter asks no plugin about such a path: what the
// filter reads there (filter/engine/path.go) and what is read here must be alike.
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

// sentPath is a path as it was sent. EscapedPath is not: a character that should
// have been escaped makes it unescape slashes, and the filter read them escaped.
func sentPath(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}
