package oauth

import (
	"cmp"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
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
	// Scope is the control plane, Plugin the id of the plugin instance, Config
	// its configuration.
	Scope  string
	Plugin string
	Config *gateway.OAuth2Config
	// Service is the id of the current service, or empty.
	Service string
	// Application is the authenticated client; nil if it is unknown and the
	// grant has its own answer for that.
	Application *model.Resource
	// Now is when the request is judged, see [Request.judged].
	Now   time.Time
	clock func() time.Time
	// resolver says what the scope consists of; nil is [scopes.Each].
	resolver scopes.Resolver
	params   *params
	// plugin is the instance as it was read, seen the revision of that state, and
	// attached says where the instance is attached.
	plugin   *model.Resource
	seen     uint64
	attached *gateway.Plugin
	// serving is the current service, where it may be of several members; else nil.
	serving *model.Resource
	// peer is the address of the client, issuer the URL of this server, empty
	// where none is known.
	peer, issuer string
	failures     *throttle
	outcome      outcome
	// decoded holds configurations that were decoded before; it may be nil.
	decoded *configurations
}

// Spec returns the application's fields.
func (t *Request) Spec() *gateway.Application { return t.Application.Spec.(*gateway.Application) }

// judged takes the time by which the request is judged. Whatever reads or writes a
// lifetime takes it in its transaction, see [Request.stands]: a client can wait for
// its turn, and an earlier time would let it have what has ended or was spent since.
func (t *Request) judged() { t.Now = t.clock() }

// state is the parameter that is echoed, nil if there is none.
func (t *Request) state() any {
	if t.params == nil { // nothing was read
		return nil
	}
	return t.params.values["state"]
}

// service is what a new token or code is bound to: the current service, or none
// at plugins with global credentials.
func (t *Request) service() string {
	if t.Config.GlobalCredentials {
		return ""
	}
	return t.Service
}

// bound reports whether the row of a token or code, which is bound to a service of a
// control plane, may be used here. A global plugin takes those of any; no other one takes
// what is bound to none.
func (t *Request) bound(res *model.Resource, service, plane string) bool {
	return t.Config.GlobalCredentials || (service != "" && service == t.Service && cmp.Or(plane, res.Scope) == t.serviceScope())
}

// adrift reports that there is nothing to bind to: the plugin is not global, and
// the route has no service. A token without a service would be good at every
// plugin that is global.
func (t *Request) adrift() bool { return !t.Config.GlobalCredentials && t.Service == "" }

// Issue is what a grant wants minted.
type Issue struct {
	// Scope of the token, words separated by single blanks.
	Scope string
	// UserID of the end user, or empty.
	UserID string
	// Refresh asks for a refresh token.
	Refresh bool
	// Family of the token; empty for one that cannot have relatives.
	Family string
	// Strict says that the strict profile holds for the family, whatever holds here.
	Strict bool
	// Redeem, if set, runs in the transaction that stores the token: it uses up
	// what the request presents and completes the issue, of which it gets a
	// copy. Like the transaction it may run more than once, and if it fails,
	// nothing was used up.
	Redeem func(tx store.Tx, issue *Issue) error
	// Name is the name that a new token will be stored under; set by the time
	// that Redeem runs.
	Name string
	// Again is a stored token that is answered once more as it is; nothing is
	// stored.
	Again *model.Resource
	// Replace is a stored token that gets a new access token, instead of a new
	// row beside it.
	Replace *model.Resource
	// Durability that the transaction needs; the zero value is the strictest.
	Durability model.Class
}

// Grants lists the grants that exist.
func Grants() []Grant {
	return []Grant{AuthorizationCode{}, ClientCredentials{}, Password{}, RefreshToken{}}
}
