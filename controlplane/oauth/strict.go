package oauth

import (
	"net/netip"
	"net/url"
)

// strictParams checks the rules of the strict profile for all requests: no parameter twice
// (RFC 6749 section 3.1), and no secret in a URI, where logs and histories keep it (section
// 2.3.1).
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

// spoiled returns the refusal of a code or refresh token that cannot be used. In the strict
// profile it is invalid_grant, as RFC 6749 section 5.2 requires.
func (t *Request) spoiled(e *Error) *Error {
	if !t.Config.Strict() {
		return e
	}
	return bad("invalid_grant", e.Description)
}

// encrypted reports whether the answer to a redirect URI crosses the network only encrypted.
// An http URI must lead to the same machine. Source: RFC 9700 section 2.6.
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
