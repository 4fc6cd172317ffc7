package oauth

import (
	"crypto/subtle"

	"github.com/meshgate/meshgate/controlplane/gateway"
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
	if t.params.has("authenticated_userid") && !t.provisioned() {
		return nil, errProvisionKey
	}
	if t.Application == nil {
		return nil, errClient
	}
	if t.Spec().ClientType == gateway.ClientPublic {
		return nil, errPublicClient
	}
	user, ok := t.params.text("authenticated_userid")
	if t.params.has("authenticated_userid") && (!ok || len(user) > gateway.MaxIdentity || !gateway.HeaderSafe(user)) {
		return nil, errUserID
	}
	scope, err := t.scope()
	if err != nil {
		return nil, err
	}
	return &Issue{Scope: scope, UserID: user}, nil
}

// provisioned reports whether the request carries the plugin's provision key.
func (t *Request) provisioned() bool {
	key, ok := t.params.text("provision_key")
	return ok && subtle.ConstantTimeCompare([]byte(key), []byte(t.Config.ProvisionKey)) == 1
}
