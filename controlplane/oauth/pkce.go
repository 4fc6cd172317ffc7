package oauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

// methodS256 is the only supported method of RFC 7636 section 4.2. The method plain does not
// protect against anybody who can read the challenge.
const methodS256 = "S256"

// Bounds of a verifier in characters, RFC 7636 section 4.1, and of a challenge
// that is stored.
const (
	minVerifier  = 43
	maxVerifier  = 128
	maxChallenge = 512
)

// needsPKCE reports whether the client must send a challenge.
func (t *Request) needsPKCE() bool {
	if t.Config.Strict() {
		return true
	}
	if t.Spec().ClientType == gateway.ClientPublic {
		return t.Config.PKCE != "none"
	}
	return t.Config.PKCE == "strict"
}

// challenge reads the challenge of an authorisation request. Without one, both results are
// empty, and the caller decides whether that is allowed.
func (t *Request) challenge() (challenge, method string, refusal *Error) {
	v := t.params.values["code_challenge"]
	challenge, isText := v.(string)
	if v != nil && !isText {
		return "", "", errChallengeType
	}
	if challenge == "" {
		if t.params.has("code_challenge_method") {
			return "", "", errChallengeMissing
		}
		return "", "", nil
	}
	if !t.methodSupported() {
		return "", "", errMethod
	}
	challenge = normalChallenge(challenge)
	if len(challenge) > maxChallenge || (t.Config.Strict() && len(challenge) != base64.RawURLEncoding.EncodedLen(sha256.Size)) {
		return "", "", errChallenge
	}
	return challenge, methodS256, nil
}

// methodSupported accepts S256. If the method is absent, it is S256 for the compatible
// profile, but plain in the strict profile, as the RFC says (section 4.3).
func (t *Request) methodSupported() bool {
	if !t.params.has("code_challenge_method") {
		return !t.Config.Strict()
	}
	method, _ := t.params.text("code_challenge_method")
	return method == methodS256 || (method == "s256" && !t.Config.Strict())
}

// normalChallenge turns every spelling of base64 into the one that verifiers are hashed to.
// Other texts stay as they are, and match no verifier.
func normalChallenge(s string) string {
	plain := strings.NewReplacer("+", "-", "/", "_").Replace(strings.TrimRight(s, "="))
	raw, err := base64.RawURLEncoding.DecodeString(plain)
	if err != nil {
		return s
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// verify checks the verifier of an exchange. Source: RFC 7636 section 4.6. A client that
// sends a verifier has sent a challenge. If the code has none, somebody has removed the
// challenge on its way, RFC 9700 section 2.1.1.
func (t *Request) verify(code *gateway.Code) *Error {
	given := t.params.values["code_verifier"]
	if code.Challenge == "" && !t.needsPKCE() && (given == nil || given == "") {
		return nil
	}
	if given == nil {
		return errVerifierMissing
	}
	verifier, ok := t.params.text("code_verifier")
	switch {
	case !ok:
		return errVerifierType
	case len(verifier) < minVerifier || len(verifier) > maxVerifier:
		return errVerifierLength
	}
	sum := sha256.Sum256([]byte(verifier))
	want := base64.RawURLEncoding.EncodeToString(sum[:])
	if code.Challenge == "" || subtle.ConstantTimeCompare([]byte(want), []byte(code.Challenge)) != 1 {
		return errVerifier
	}
	return nil
}
