package httpkit

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// RequireBearer returns next behind a bearer token (RFC 6750 section 2.1):
// whoever does not send it in Authorization is answered 401. Tokens are compared
// by their hashes, so that the time it takes tells neither content nor length.
// An empty token lets nobody pass.
func RequireBearer(token string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, sent := bearerOf(r.Header)
		got := sha256.Sum256([]byte(given))
		if subtle.ConstantTimeCompare(got[:], want[:]) == 1 && token != "" {
			next.ServeHTTP(w, r)
			return
		}
		EntryOf(r.Context()).Code = "unauthenticated"
		challenge, text := `Bearer`, "This API needs a bearer token in the header Authorization"
		if sent {
			challenge, text = `Bearer error="invalid_token"`, "The bearer token is not valid"
		}
		w.Header().Set("WWW-Authenticate", challenge)
		WriteMessage(w, http.StatusUnauthorized, text)
	})
}

// bearerOf returns the token of the one Authorization header, and whether there
// is any such header.
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
