package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
)

// Token is an issued or migrated access token.
// Source: requirement "Access token".
type Token struct {
	// Credential is the id of the application.
	Credential string `json:"credential" jsonschema_extras:"x-on-delete=cascade,x-refers-to=oauth2_credential,x-by=client_id,x-flat=credential_id"`
	// Service is the id of the service the token is bound to, or empty. ServicePlane is the
	// control plane of the service, if that is not the token's own: both are of one group.
	Service      string `json:"service,omitempty" jsonschema_extras:"x-on-delete=cascade,x-refers-to=service,x-flat=service_id,x-in=service_plane"`
	ServicePlane string `json:"service_plane,omitempty" jsonschema_extras:"x-hidden=true,x-keep=true"`
	TokenType    string `json:"token_type" jsonschema:"default=bearer,enum=bearer"`
	ExpiresIn    int64  `json:"expires_in" jsonschema:"minimum=0,maximum=2147483647"`
	// AccessToken that the caller chose may have been presented before and be
	// remembered as unknown.
	AccessToken         string `json:"access_token" jsonschema:"maxLength=4096" jsonschema_extras:"x-unique=secret,x-generated=secret,x-check=header,x-announce=true"`
	RefreshToken        string `json:"refresh_token,omitempty" jsonschema:"maxLength=4096" jsonschema_extras:"x-unique=secret,x-check=header"`
	Scope               string `json:"scope,omitempty" jsonschema:"maxLength=1024" jsonschema_extras:"x-check=header"`
	AuthenticatedUserID string `json:"authenticated_userid,omitempty" jsonschema:"maxLength=512" jsonschema_extras:"x-listed=true,x-check=header"`
	// TTL is how many seconds the row lives on; DropAt is what is kept of it.
	TTL model.Virtual[int64] `json:"ttl,omitzero" jsonschema:"minimum=1,maximum=100000000" jsonschema_extras:"x-meta=true"`
	// Family is the id that all tokens from one authorisation share: those that
	// came of one code or of one password grant, and what they were refreshed
	// to. Empty for tokens that cannot have relatives.
	Family string `json:"family,omitempty" jsonschema_extras:"x-listed=true,x-hidden=true,x-keep=true"`
	// Strict says that the token, or one that it came of, was issued in the strict
	// profile: what is spent of its family is remembered wherever that happens.
	Strict bool `json:"strict,omitempty" jsonschema_extras:"x-hidden=true,x-keep=true"`
	// DropAt is when the row's lifetime is over, in milliseconds of Unix time;
	// 0 means never.
	DropAt int64 `json:"drop_at,omitempty" jsonschema_extras:"x-hidden=true,x-keep=true"`
}

// Tokens is the kind of access tokens. Times are in milliseconds, expires_in and ttl in
// seconds. Source: requirement "Access token".
var Tokens = rules.Describe(Token{}, model.Kind{
	Name: "oauth2_token", Path: "oauth2_tokens", Scoping: model.ControlPlane, Class: model.Credential, Sealed: true, Fleeting: true,
	Secrets: []string{"/access_token", "/refresh_token"},
	Expires: func(spec any) time.Time { return at(spec.(*Token).DropAt) },
	Schema: &model.Schema{
		Key: "access_token", KeyIndex: TokenKey, CreatedUnit: time.Millisecond,
		Settle: settleToken, Present: presentToken,
	},
})

// TokenBearer is the only token type. Source: RFC 6750.
const TokenBearer = "bearer"

// settleToken turns the relative ttl into the moment at which the row is
// dropped, and separates scopes by single blanks.
func settleToken(w *model.Write, now time.Time) error {
	settleTTL(w, now)
	// What an API names is of its own control plane, but for what the token has already.
	if w.Old == nil || !sameReference(w.New["service"], w.Old["service"]) {
		w.New["service_plane"] = nil
	}
	if words := Words(given(w.New, "scope")); len(words) > 0 {
		w.New["scope"] = strings.Join(words, " ")
	}
	return nil
}

// sameReference reports whether two references name one id.
func sameReference(a, b any) bool {
	x, isX := a.(map[string]any)
	y, isY := b.(map[string]any)
	return isX && isY && x[model.FieldID] == y[model.FieldID]
}

// settleTTL turns a ttl in seconds into drop_at; a null one means never.
func settleTTL(w *model.Write, now time.Time) {
	v, ok := w.Given["ttl"]
	if !ok {
		return
	}
	w.New["drop_at"] = nil
	if ttl, isSet := w.New["ttl"].(int64); isSet && v != nil {
		w.New["drop_at"] = now.UnixMilli() + ttl*1000
	}
}

// presentToken shows the remaining lifetime of the row in whole seconds.
func presentToken(r *model.Resource, out map[string]any, now time.Time) {
	out["ttl"] = remaining(r.Spec.(*Token).DropAt, now)
}

// remaining is the time until a moment in seconds, rounded up; nil for never.
func remaining(dropAt int64, now time.Time) any {
	if dropAt <= 0 {
		return nil
	}
	return max(0, (dropAt-now.UnixMilli()+999)/1000)
}

// Words splits a list of scopes: blanks separate them, and nothing else does.
// Source: RFC 6749 section 3.3.
func Words(scope string) []string {
	return strings.FieldsFunc(scope, func(r rune) bool { return r == ' ' })
}

// TokenKey is the value under which an access token is found in its index: the
// SHA-256 of the token in lower-case hex, which is all that a filter knows of it.
func TokenKey(accessToken string) string {
	h := sha256.Sum256([]byte(accessToken))
	return hex.EncodeToString(h[:])
}
