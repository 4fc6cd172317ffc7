package oauth

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// Error is a refusal by the rules of OAuth. Grants and phases return it; only
// the handler writes it.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Type is the value of "error".
	Type string
	// Description is the value of "error_description".
	Description string
	// Challenge is the WWW-Authenticate header, or empty.
	Challenge string
}

// Error implements error.
func (e *Error) Error() string { return e.Type + ": " + e.Description }

func bad(kind, description string) *Error {
	return &Error{Status: http.StatusBadRequest, Type: kind, Description: description}
}

// Texts of refusals; source: RFC 6749 section 5.2 and the requirement's errors.
var (
	errHTTPS        = bad("access_denied", "You must use HTTPS")
	errManyProtos   = bad("access_denied", "Only one X-Forwarded-Proto header allowed")
	errGrantType    = bad("unsupported_grant_type", "Invalid grant_type")
	errResponseType = bad("unsupported_response_type", "Invalid response_type")
	errClient       = bad("invalid_client", "Invalid client authentication")
	errRedirect     = bad("invalid_request", "Invalid redirect_uri that does not match with any redirect_uri created with the application")
	errPublicSecret = bad("invalid_request", "client_secret is disallowed for public clients")
	errPublicClient = bad("unauthorized_client", "Public clients cannot use the client_credentials grant")
	errProvisionKey = bad("invalid_provision_key", "Invalid provision_key")
	errUserID       = bad("invalid_authenticated_userid", "Invalid authenticated_userid parameter")
	errScopeMissing = bad("invalid_scope", "You must specify a scope")
	errScopeLong    = bad("invalid_scope", "scope is too long")
	errScopeType    = bad("invalid_scope", "scope must be a string")
)

// errClientBasic refuses credentials that came in the header.
var errClientBasic = &Error{
	Status: http.StatusUnauthorized, Type: errClient.Type, Description: errClient.Description,
	Challenge: `Basic realm="OAuth2.0"`,
}

// reply is the JSON document of an issuing endpoint.
type reply struct {
	Error        string `json:"error,omitempty"`
	Description  string `json:"error_description,omitempty"`
	AccessToken  string `json:"access_token,omitempty"`
	TokenType    string `json:"token_type,omitempty"`
	ExpiresIn    int64  `json:"expires_in,omitempty"`
	RefreshToken string `json:"refresh_token,omitempty"`
	State        any    `json:"state,omitempty"`
}

func writeReply(w http.ResponseWriter, status int, doc any) error {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(doc)
}

// refuse writes an error document; cached answers would outlive the reason.
func refuse(w http.ResponseWriter, e *Error, state any) error {
	noStore(w)
	if e.Challenge != "" {
		w.Header().Set("WWW-Authenticate", e.Challenge)
	}
	return writeReply(w, e.Status, reply{Error: e.Type, Description: e.Description, State: state})
}

func noStore(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Pragma", "no-cache")
}

// refuseMethod answers every method but POST.
func refuseMethod(w http.ResponseWriter, method, endpoint, realm string) error {
	d := fmt.Sprintf("The HTTP method %s is invalid for the %s endpoint", method, endpoint)
	challenge := fmt.Sprintf(`Bearer error="invalid_method", error_description="%s"`, d)
	if realm != "" {
		challenge = fmt.Sprintf(`Bearer realm=%q, error="invalid_method", error_description="%s"`, realm, d)
	}
	w.Header().Set("WWW-Authenticate", challenge)
	return writeReply(w, http.StatusMethodNotAllowed, reply{Error: "invalid_method", Description: d})
}
