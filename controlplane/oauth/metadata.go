package oauth

import (
	"net/http"
	"strings"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

// metadata is the document of RFC 8414 section 2. It advertises what the plugin
// offers and nothing else.
type metadata struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint,omitempty"`
	TokenEndpoint         string   `json:"token_endpoint"`
	IntrospectionEndpoint string   `json:"introspection_endpoint"`
	RevocationEndpoint    string   `json:"revocation_endpoint"`
	Scopes                []string `json:"scopes_supported,omitempty"`
	ResponseTypes         []string `json:"response_types_supported"`
	ResponseModes         []string `json:"response_modes_supported,omitempty"`
	Grants                []string `json:"grant_types_supported"`
	TokenAuth             []string `json:"token_endpoint_auth_methods_supported"`
	IntrospectionAuth     []string `json:"introspection_endpoint_auth_methods_supported"`
	RevocationAuth        []string `json:"revocation_endpoint_auth_methods_supported"`
	Challenges            []string `json:"code_challenge_methods_supported,omitempty"`
	// Iss reports whether authorisation responses name the issuer, RFC 9207 section 3.
	Iss bool `json:"authorization_response_iss_parameter_supported,omitempty"`
}

// metadata answers GET at the well-known path. It is public.
func (s *Server) metadata(w http.ResponseWriter, r *http.Request, t *Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return t.refuseMethod(w, r.Method, endpointMetadata.name(), "GET, HEAD")
	}
	if e := checkHTTPS(t.Config, r); e != nil {
		return t.refuse(w, e)
	}
	noStore(w)
	if t.issuer == "" { // clients trust metadata, so the issuer must not be guessed
		return writeReply(w, http.StatusNotFound, message("the issuer is not known: set config.issuer of the plugin, or hosts of its route"))
	}
	return writeReply(w, http.StatusOK, t.describe())
}

func (t *Request) describe() *metadata {
	cfg := t.Config
	m := &metadata{
		Issuer: t.issuer, TokenEndpoint: t.issuer + pathToken, IntrospectionEndpoint: t.issuer + pathIntrospect,
		RevocationEndpoint: t.issuer + pathRevoke, Scopes: cfg.Scopes, ResponseTypes: []string{}, Grants: []string{},
		Iss: cfg.Strict() && cfg.EnableAuthorizationCode,
	}
	code, implicit := t.offers(responseCode), t.offers(responseToken)
	password := Password{}.Enabled(cfg)
	if code {
		m.ResponseTypes = append(m.ResponseTypes, string(responseCode))
		m.ResponseModes = append(m.ResponseModes, "query")
		m.Grants = append(m.Grants, AuthorizationCode{}.Type())
		m.Challenges = []string{methodS256}
	}
	if implicit {
		m.ResponseTypes = append(m.ResponseTypes, string(responseToken))
		m.ResponseModes = append(m.ResponseModes, "fragment")
		m.Grants = append(m.Grants, "implicit")
	}
	if code || implicit {
		m.AuthorizationEndpoint = t.issuer + pathAuthorize
	}
	if cfg.EnableClientCredentials {
		m.Grants = append(m.Grants, ClientCredentials{}.Type())
	}
	if password {
		m.Grants = append(m.Grants, Password{}.Type())
	}
	if (code || password) && cfg.TokenExpiration > 0 {
		m.Grants = append(m.Grants, RefreshToken{}.Type())
	}
	m.IntrospectionAuth = clientAuth(cfg)
	m.TokenAuth = append(clientAuth(cfg), "none")
	m.RevocationAuth = m.TokenAuth
	return m
}

// clientAuth lists how confidential clients can authenticate. Basic, as the standard defines
// it, needs the standard header.
func clientAuth(cfg *gateway.OAuth2Config) []string {
	if !strings.EqualFold(cfg.AuthHeaderName, "authorization") {
		return []string{"client_secret_post"}
	}
	return []string{"client_secret_basic", "client_secret_post"}
}
