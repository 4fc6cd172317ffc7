package oauth

import (
	"crypto/subtle"
	"strings"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
)

// ClientCredentials is the grant of RFC 6749 section 4.4: the application acts
// for itself. It never yields a refresh token (section 4.4.3).
type ClientCredentials struct{}

// Type implements Grant.
func (ClientCredentials) Type() string { return "client_credentials" }

// Enabled implements Grant.
func (ClientCredentials) Enabled(cfg *gateway.OAuth2Config) bool { return cfg.EnableClientCredentials }

// NeedsRedirect implements Grant: nobody is redirected.
func (ClientCredentials) NeedsRedirect() bool { return false }

// Authorize implements Grant. An authenticated_userid is a statement about an
// end user, so only a backend that knows the provision key may make it.
func (ClientCredentials) Authorize(t *Request) (*Issue, error) {
	if t.params.has("authenticated_userid") {
		if e := t.provisioned(); e != nil {
			return nil, e
		}
	}
	if t.Application == nil {
		return nil, errClient
	}
	if t.Spec().ClientType == gateway.ClientPublic {
		return nil, errPublicClient
	}
	user, ok := t.params.text("authenticated_userid")
	if t.params.has("authenticated_userid") && (!ok || !fitting(user)) {
		return nil, errUserID
	}
	scope, err := t.scope()
	if err != nil {
		return nil, err
	}
	return &Issue{Scope: scope, UserID: user, Durability: model.Credential}, nil
}

// provisioned refuses a request without the plugin's provision key. Failed attempts are
// throttled, because the key could be guessed like a secret.
func (t *Request) provisioned() *Error {
	a := t.failures.attempt("provision key "+t.Scope+" "+t.Plugin, t.peer, t.Config.Strict())
	key, ok := t.params.text("provision_key")
	ok = ok && subtle.ConstantTimeCompare([]byte(key), []byte(t.Config.ProvisionKey)) == 1
	if wait := t.failures.settle(a, ok); wait > 0 {
		return slowDown(wait)
	}
	if !ok {
		return errProvisionKey
	}
	return nil
}

// user returns the end user whom a backend with the provision key vouches for.
func (t *Request) user() (string, *Error) {
	if e := t.provisioned(); e != nil {
		return "", e
	}
	if !t.params.has("authenticated_userid") {
		return "", errUserMissing
	}
	user, ok := t.params.text("authenticated_userid")
	switch {
	case ok && strings.TrimSpace(user) == "":
		return "", errUserMissing
	case !ok, !fitting(user):
		return "", errUserID
	}
	return user, nil
}

// fitting reports whether an end user's id reaches the upstream unchanged.
func fitting(user string) bool {
	return len(user) <= gateway.MaxIdentity && gateway.HeaderSafe(user)
}
