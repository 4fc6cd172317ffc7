package oauth

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Error is a refusal by the rules of OAuth. Grants and phases return it; only the handler
// writes it.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Type is the value of "error".
	Type string
	// Description is the value of "error_description".
	Description string
	// Challenge is the WWW-Authenticate header, or empty.
	Challenge string
	// RetryAfter is in seconds; 0 leaves the header out.
	RetryAfter int
}

// Error implements error.
func (e *Error) Error() string { return e.Type + ": " + e.Description }

func bad(kind, description string) *Error {
	return &Error{Status: http.StatusBadRequest, Type: kind, Description: description}
}

// Refusals. Source: RFC 6749 section 5.2 and the requirement's errors.
var (
	errHTTPS            = bad("access_denied", "You must use HTTPS")
	errManyProtos       = bad("access_denied", "Only one X-Forwarded-Proto header allowed")
	errUnreadable       = bad("invalid_request", "The request body is too large or cannot be read")
	errUpgrade          = bad("invalid_request", "A request for another protocol cannot be answered here")
	errGrantType        = bad("unsupported_grant_type", "Invalid grant_type")
	errResponseType     = bad("unsupported_response_type", "Invalid response_type")
	errClient           = bad("invalid_client", "Invalid client authentication")
	errRedirect         = bad("invalid_request", "Invalid redirect_uri that does not match with any redirect_uri created with the application")
	errPublicSecret     = bad("invalid_request", "client_secret is disallowed for public clients")
	errPublicClient     = bad("unauthorized_client", "Public clients cannot use the client_credentials grant")
	errPublicIntrospect = bad("unauthorized_client", "Public clients cannot introspect tokens")
	errProvisionKey     = bad("invalid_provision_key", "Invalid provision_key")
	errUserMissing      = bad("invalid_authenticated_userid", "Missing authenticated_userid parameter")
	errUserID           = bad("invalid_authenticated_userid", "Invalid authenticated_userid parameter")
	errScopeMissing     = bad("invalid_scope", "You must specify a scope")
	errScopeLong        = bad("invalid_scope", "scope is too long")
	errScopeType        = bad("invalid_scope", "scope must be a string")
	errScopeMismatch    = bad("invalid_scope", "Scope mismatch")
	errCode             = bad("invalid_request", "Invalid code")
	errRefresh          = bad("invalid_request", "Invalid refresh_token")
	errChallengeMissing = bad("invalid_request", "code_challenge is required when code_method is present")
	errChallengeType    = bad("invalid_request", "code_challenge must be a string")
	errChallenge        = bad("invalid_request", "code_challenge is not the SHA-256 of a verifier")
	errMethod           = bad("invalid_request", "code_challenge_method is not supported, must be S256")
	errVerifierMissing  = bad("invalid_request", "code_verifier is required for PKCE authorization requests")
	errVerifierType     = bad("invalid_request", "code_verifier is not a string")
	errVerifierLength   = bad("invalid_request", "code_verifier must be between 43 and 128 characters")
	errVerifier         = bad("invalid_grant", "Invalid code")
	errTokenMissing     = bad("invalid_request", "token is missing")
)

// Refusals that only the strict profile has.
var (
	errRepeated        = bad("invalid_request", "A parameter is given more than once")
	errSecretInURI     = bad("invalid_request", "client_secret must not be part of the URI")
	errTwoMethods      = bad("invalid_request", "Only one method of client authentication is allowed")
	errRedirectHTTP    = bad("invalid_request", "redirect_uri must not be sent over the network in clear")
	errRedirectDiffers = bad("invalid_grant", "redirect_uri differs from that of the authorization request")
)

// errChallengeRequired refuses a client of a type that needs PKCE.
func errChallengeRequired(clientType string) *Error {
	return bad("invalid_request", "code_challenge is required for "+clientType+" clients")
}

// slowDown refuses a client that failed too often. Source: RFC 6585 section 4.
func slowDown(wait time.Duration) *Error {
	return &Error{
		Status: http.StatusTooManyRequests, Type: "slow_down", Description: "Too many failed authentications",
		RetryAfter: max(1, int((wait+time.Second-1)/time.Second)),
	}
}

// errBusy refuses a request that would have to wait for too long.
var errBusy = &Error{
	Status: http.StatusServiceUnavailable, Type: "temporarily_unavailable", Description: "Too many client authentications at once",
	RetryAfter: 1,
}

// errUnstored refuses a request whose result cannot be stored. It does not say why, because
// clients cannot do anything about that.
var errUnstored = &Error{
	Status: http.StatusServiceUnavailable, Type: "temporarily_unavailable", Description: "Nothing can be stored at present, try again later",
}

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
	Scope        string `json:"scope,omitempty"`
	State        any    `json:"state,omitempty"`
	// unheard is set if some filters may still accept the predecessor of the token.
	unheard bool
}

// warningUnheard is added to an answer if the predecessor of its token may be accepted for
// some time (RFC 9111 section 5.5, code 299). The new token is valid nevertheless.
const warningUnheard = `299 - "the access token before this one may be accepted for some time"`

func writeReply(w http.ResponseWriter, status int, doc any) error {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(doc)
}

// refuse writes an error document. It forbids caching, because a cached answer would outlive
// its reason.
func refuse(w http.ResponseWriter, e *Error, state any) error {
	noStore(w)
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	if e.Challenge != "" {
		w.Header().Set("WWW-Authenticate", e.Challenge)
	}
	return writeReply(w, e.Status, reply{Error: e.Type, Description: e.Description, State: state})
}

// noStore keeps answers out of caches. Source: RFC 6749 section 5.1.
func noStore(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Pragma", "no-cache")
}

// private sets the headers that every answer carries: no page learns where a browser came
// from, and no browser guesses types. There is no CORS, because backends and native clients
// call the endpoints. Source: RFC 9700 sections 2.6 and 4.2.
func private(w http.ResponseWriter) {
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

// reasonMethod is the reason for refusing a method that an endpoint does not have.
const reasonMethod = "invalid_method"

// message is the document of answers that have nothing to do with OAuth.
func message(text string) map[string]string { return map[string]string{"message": text} }

// refuseMethod answers methods that an endpoint does not have.
func (t *Request) refuseMethod(w http.ResponseWriter, method, endpoint, allow string) error {
	t.outcome.reason = reasonMethod
	realm := t.Config.Realm
	d := fmt.Sprintf("The HTTP method %s is invalid for the %s", method, endpoint)
	challenge := fmt.Sprintf(`Bearer error="invalid_method", error_description="%s"`, d)
	if realm != "" {
		challenge = fmt.Sprintf(`Bearer realm=%q, error="invalid_method", error_description="%s"`, realm, d)
	}
	w.Header().Set("WWW-Authenticate", challenge)
	w.Header().Set("Allow", allow)
	return writeReply(w, http.StatusMethodNotAllowed, reply{Error: reasonMethod, Description: d})
}
