package oauthtest

import "strings"

// OnlyEndpoints reports whether all requests of a case go to endpoints of the OAuth server,
// so that the case can test the server alone. Paths that a gateway has to normalise do not
// count as endpoints.
func (c Case) OnlyEndpoints() bool {
	if c.Needs == "gateway" {
		return false
	}
	for _, s := range c.Steps {
		path, _, _ := strings.Cut(s.Path, "?")
		path = strings.TrimSuffix(path, "/")
		if s.Admin != nil || s.Token != nil || s.Authorize != nil || s.Introspect != nil || s.Revoke != nil {
			continue
		}
		if !endpointPath(path) && !strings.HasSuffix(path, "/oauth2/introspect") && !strings.HasSuffix(path, "/oauth2/revoke") &&
			!strings.HasPrefix(path, "/.well-known/oauth-authorization-server") {
			return false
		}
	}
	return true
}
