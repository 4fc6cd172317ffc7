package oauth

import (
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Grant is one way to obtain a token. The handler has authenticated the client
// when Authorize runs.
type Grant interface {
	// Type is the value of grant_type.
	Type() string
	// Enabled reports whether a plugin instance offers the grant.
	Enabled(cfg *gateway.OAuth2Config) bool
	// NeedsRedirect says that an application without a matching redirect URI
	// cannot use the grant.
	NeedsRedirect() bool
	// Authorize decides what to issue, or returns an *Error; any other error is
	// internal.
	Authorize(t *Request) (*Issue, error)
}

// Request is an authenticated token request as a grant sees it.
type Request struct {
	// Plugin is the id of the plugin instance, Config its configuration.
	Plugin string
	Config *gateway.OAuth2Config
	// Service is the id of the current service, or empty.
	Service string
	// Application is the authenticated client; nil if it is unknown and the
	// grant has its own answer for that.
	Application *model.Resource
	params      params
}

// Spec returns the application's fields.
func (t *Request) Spec() *gateway.Application { return t.Application.Spec.(*gateway.Application) }

// Issue is what a grant wants minted.
type Issue struct {
	// Scope of the token, words separated by single blanks.
	Scope string
	// UserID of the end user, or empty.
	UserID string
	// Refresh asks for a refresh token.
	Refresh bool
}

// Grants lists the grants that exist.
func Grants() []Grant { return []Grant{ClientCredentials{}} }
