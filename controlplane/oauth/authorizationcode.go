package oauth

import (
	"cmp"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// AuthorizationCode is the grant of RFC 6749 section 4.1.3: a code, once, for a
// token. A failed exchange leaves the code usable, so that somebody who merely
// guesses at client or verifier cannot take it from its owner.
type AuthorizationCode struct{}

// Type implements Grant.
func (AuthorizationCode) Type() string { return "authorization_code" }

// Enabled implements Grant. What decides is whether codes are issued.
func (AuthorizationCode) Enabled(*gateway.OAuth2Config) bool { return true }

// NeedsRedirect implements Grant.
func (AuthorizationCode) NeedsRedirect() bool { return true }

// Authorize implements Grant. User and scope are those of the code. Spending one needs
// the strictest durability: after a power failure it could be spent once more.
func (AuthorizationCode) Authorize(t *Request) (*Issue, error) {
	value, ok := t.params.text("code")
	if !ok || value == "" {
		return nil, t.spoiled(errCode)
	}
	return &Issue{
		Refresh: true, Durability: model.Config,
		Redeem: func(tx store.Tx, issue *Issue) error { return t.redeemCode(tx, value, issue) },
	}, nil
}

func (t *Request) redeemCode(tx store.Tx, value string, issue *Issue) error {
	res, err := t.held(tx, gateway.Codes, gateway.IndexCode, value)
	if fault.Is(err, fault.NotFound) {
		return t.unknownCode(tx, value)
	}
	if err != nil {
		return err
	}
	code := res.Spec.(*gateway.Code)
	if t.over(code.DropAt) {
		return t.unknownCode(tx, value)
	}
	if e := t.checkCode(res, code); e != nil {
		return e
	}
	if e := t.permitted(code.Scope); e != nil {
		return e
	}
	if err := t.laxer(tx, res, code); err != nil {
		return err
	}
	issue.Scope, issue.UserID, issue.Family = code.Scope, code.AuthenticatedUserID, uuid.NewString()
	if err := t.spend(tx, value, issue, ""); err != nil {
		return err
	}
	return tx.Delete(gateway.Codes, res.Scope, res.Name, res.Version)
}

// checkCode decides whether the client may use a code here and now.
func (t *Request) checkCode(res *model.Resource, code *gateway.Code) *Error {
	if !t.bound(res, code.Service, code.ServicePlane) || !t.owns(res, code.Credential) {
		return t.spoiled(errCode)
	}
	if e := t.verify(code); e != nil {
		return e
	}
	// Plugins of one service may share its codes, as gRPC needs: there tokens
	// are used on one route and issued on another. Where no service binds the
	// code, and in the strict profile, its plugin does.
	if (t.Config.GlobalCredentials || t.Config.Strict()) && !t.issued(res, code) {
		return t.spoiled(errCode)
	}
	if uri, ok := t.params.text("redirect_uri"); t.Config.Strict() && code.RedirectURI != "" && (!ok || uri != code.RedirectURI) {
		return errRedirectDiffers
	}
	return nil
}

// issued reports whether the plugin has issued a code.
func (t *Request) issued(res *model.Resource, code *gateway.Code) bool {
	return code.Plugin == t.Plugin && cmp.Or(code.PluginPlane, res.Scope) == t.plugin.Scope
}

// laxer refuses a code of another plugin that is strict where this one is not: it
// would be exchanged without what the strict profile demands, and not remembered.
func (t *Request) laxer(tx store.Reader, res *model.Resource, code *gateway.Code) error {
	if t.issued(res, code) || t.Config.Strict() {
		return nil
	}
	plugin, issuer, err := t.pluginConfig(tx, code.Plugin)
	if fault.Is(err, fault.NotFound) || (err == nil && (issuer.Strict() || plugin.Scope != cmp.Or(code.PluginPlane, res.Scope))) {
		return t.spoiled(errCode)
	}
	return err
}

// unknownCode refuses a code that is not there; one that was used before is a
// sign of theft.
func (t *Request) unknownCode(tx store.Reader, value string) error {
	spent, err := t.spentValue(tx, value)
	if err != nil {
		return err
	}
	if spent == nil {
		return t.spoiled(errCode)
	}
	return &replay{family: spent.Family, refusal: t.spoiled(errCode)}
}

// over says that a row has ended, in milliseconds of Unix time, 0 for never. The store
// keeps it for longer while it does not know what time it is, so that it can be revoked.
func (t *Request) over(dropAt int64) bool { return dropAt != 0 && t.Now.UnixMilli() >= dropAt }
