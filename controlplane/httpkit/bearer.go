package httpkit

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/meshgate/meshgate/controlplane/model"
)

// HeaderAdminToken carries the administration token for tools that cannot send it in
// Authorization. Existing declarative tools send this name, so it cannot be a neutral one.
// It is used nowhere else.
const HeaderAdminToken = "Kong-Admin-Token"

const (
	challengeBearer = `Bearer`
	textEmptyToken  = "The request has no bearer token that is not empty, or more than one"
	textNoToken     = "This API needs a bearer token in the header Authorization"
)

// unauthenticated is the error of a caller with missing or bad credentials.
type unauthenticated struct{ challenge, text string }

// Error implements error.
func (e *unauthenticated) Error() string { return e.text }

// Bearer identifies a caller that shows a token (RFC 6750 section 2.1) as an actor. The
// token is in Authorization or in [HeaderAdminToken], but not in both. For other callers it
// returns an error that [RefuseMessage] answers with 401. It compares the hashes of tokens,
// so that the time reveals neither content nor length. An empty token admits nobody.
func Bearer(token string, who model.Actor) func(*http.Request) (model.Actor, error) {
	want := sha256.Sum256([]byte(token))
	return func(r *http.Request) (model.Actor, error) {
		given, sent := tokenOf(r.Header)
		got := sha256.Sum256([]byte(given))
		switch {
		case subtle.ConstantTimeCompare(got[:], want[:]) == 1 && token != "":
			return who, nil
		case sent && given == "":
			return model.Actor{}, &unauthenticated{`Bearer error="invalid_token"`, textEmptyToken}
		case sent:
			return model.Actor{}, &unauthenticated{`Bearer error="invalid_token"`, "The bearer token is not valid"}
		}
		return model.Actor{}, &unauthenticated{challengeBearer, textNoToken}
	}
}

// TokenOf returns the bearer token of a request to the mesh API, whose scheme is exactly
// "Bearer". Requests with another scheme, or with several Authorization headers, have none.
func TokenOf(r *http.Request) (token string, ok bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	return strings.CutPrefix(values[0], "Bearer ")
}

// Unauthenticated returns the error of a caller whose token is not valid, which
// [RefuseMessage] answers with 401.
func Unauthenticated() error {
	return &unauthenticated{`Bearer error="invalid_token"`, "The bearer token is not valid"}
}

// SentToken reports whether a request carries the token of an administration API, or any other
// header that could hold one.
func SentToken(r *http.Request) bool {
	_, sent := tokenOf(r.Header)
	return sent
}

// tokenOf returns the only token of a request, and whether any header could hold one.
// Several tokens count as none, so that nobody has to choose between them.
func tokenOf(h http.Header) (token string, sent bool) {
	token, sent = bearerOf(h)
	values := h.Values(HeaderAdminToken)
	switch {
	case len(values) == 0:
		return token, sent
	case len(values) > 1 || sent:
		return "", true
	}
	return values[0], true
}

// bearerOf returns the token of the only Authorization header, and whether there is any such
// header.
func bearerOf(h http.Header) (token string, sent bool) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return "", len(values) > 0
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", true
	}
	return strings.TrimLeft(token, " "), true
}
