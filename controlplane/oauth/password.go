package oauth

import (
	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Password is the grant of RFC 6749 section 4.3. The operator's backend checks user name and
// password, and authenticates itself with the provision key. The parameters username and
// password are never read here. Source: requirement "Resource Owner Password Credentials flow
// (legacy)".
type Password struct{}

// Type implements Grant.
func (Password) Type() string { return "password" }

// Enabled implements Grant. Source: RFC 9700 section 2.4 for the strict profile.
func (Password) Enabled(cfg *gateway.OAuth2Config) bool {
	return cfg.EnablePasswordGrant && !cfg.Strict()
}

// NeedsRedirect implements Grant.
func (Password) NeedsRedirect() bool { return true }

// Authorize implements Grant.
func (Password) Authorize(t *Request) (*Issue, error) {
	user, e := t.user()
	if e != nil {
		return nil, e
	}
	scope, err := t.scope()
	if err != nil {
		return nil, err
	}
	return &Issue{Scope: scope, UserID: user, Refresh: true, Family: uuid.NewString(), Durability: model.Credential}, nil
}
