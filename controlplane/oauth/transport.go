package oauth

import (
	"net/http"
	"strings"
	"unicode"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
)

// gatewayOf returns the control plane and the node id of the gateway that sends a request.
// Both come from its client certificate: spiffe://meshgate/cp/<control plane>/<instance>.
func gatewayOf(r *http.Request) (scope, node string, ok bool) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return "", "", false
	}
	for _, u := range r.TLS.PeerCertificates[0].URIs {
		part := strings.Split(u.Path, "/")
		if u.Scheme == "spiffe" && u.Host == "meshgate" && len(part) == 4 && part[1] == "cp" && part[2] != "" && !strings.ContainsFunc(u.Path, unicode.IsControl) {
			return part[2], u.Path[1:], true
		}
	}
	return "", "", false
}

// checkHTTPS refuses a request if the client's connection was not encrypted. The gateway
// passes on what a trusted proxy says about the connection of its client. Source: RFC 6749
// section 3.2.
func checkHTTPS(cfg *gateway.OAuth2Config, r *http.Request) *Error {
	if r.Header.Get(contract.HeaderOAuthScheme) == "https" {
		return nil
	}
	protos := r.Header.Values(contract.HeaderOAuthProto)
	switch {
	case !cfg.AcceptHTTPIfAlreadyTerminated || len(protos) == 0:
		return errHTTPS
	case len(protos) > 1 || strings.Contains(protos[0], ","):
		return errManyProtos
	case strings.EqualFold(protos[0], "https"):
		return nil
	}
	return errHTTPS
}
