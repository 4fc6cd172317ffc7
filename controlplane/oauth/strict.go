package oauth

import (
	"net/netip"
	"net/url"
)

// strictParams applies what the strict profile demands of every request: no
// parameter twice (RFC 6749 section 3.1) and no secret in a URI, where logs and
// histories keep it (section 2.3.1).
func (t *Request) strictParams() *Error {
	switch {
	case !t.Config.Strict():
		return nil
	case t.params.repeated != "":
		return errRepeated
	case t.params.inURI["client_secret"]:
		return errSecretInURI
	}
	return nil
}

// spoiled is the refusal of a code or refresh token that cannot be used:
// invalid_grant in the strict profile, as RFC 6749 section 5.2 names it.
func (t *Request) spoiled(e *Error) *Error {
	if !t.Config.Strict() {
		return e
	}
	return bad("invalid_grant", e.Description)
}

// encrypted reports whether a redirect URI keeps its answer off the network in
// clear: http leads to the same machine only. Source: RFC 9700 section 2.6.
func encrypted(uri string) bool {
	u, err := url.Parse(uri)
	if err != nil {
		return false
	}
	if u.Scheme != "http" {
		return true
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || (err == nil && addr.Unmap().IsLoopback())
}
