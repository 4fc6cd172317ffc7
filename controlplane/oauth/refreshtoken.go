package oauth

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// RefreshToken is the grant of RFC 6749 section 6. Scope and user stay those of
// the token that is refreshed; a scope parameter is not looked at, so nothing
// can be widened. The old access token is dead with the answer.
type RefreshToken struct{}

// Type implements Grant.
func (RefreshToken) Type() string { return "refresh_token" }

// Enabled implements Grant. What decides is whether refresh tokens are issued.
func (RefreshToken) Enabled(*gateway.OAuth2Config) bool { return true }

// NeedsRedirect implements Grant.
func (RefreshToken) NeedsRedirect() bool { return true }

// Authorize implements Grant. Its transaction revokes the old access token and
// so needs the strictest durability.
func (RefreshToken) Authorize(t *Request) (*Issue, error) {
	value, ok := t.params.text("refresh_token")
	if !ok || value == "" {
		return nil, t.spoiled(errRefresh)
	}
	return &Issue{
		Refresh: true, Durability: model.Config,
		Redeem: func(tx store.Tx, issue *Issue) error { return t.redeemRefresh(tx, value, issue) },
	}, nil
}

func (t *Request) redeemRefresh(tx store.Tx, value string, issue *Issue) error {
	res, err := t.held(tx, gateway.Tokens, gateway.IndexRefreshToken, value)
	if fault.Is(err, fault.NotFound) {
		return t.unknownRefresh(tx, value, issue)
	}
	if err != nil {
		return err
	}
	if t.over(res.Spec.(*gateway.Token).DropAt) {
		return t.unknownRefresh(tx, value, issue)
	}
	if err := t.inherit(tx, res, issue); err != nil {
		return err
	}
	if t.reuses(issue) {
		issue.Replace = res
		return nil
	}
	if err := t.spend(tx, value, issue, issue.Name); err != nil {
		return err
	}
	return tx.Delete(gateway.Tokens, res.Scope, res.Name, res.Version)
}

// inherit checks that a token may be refreshed here and takes from it what the
// new one shares with it.
func (t *Request) inherit(tx store.Reader, res *model.Resource, issue *Issue) error {
	token := res.Spec.(*gateway.Token)
	// A plugin with global credentials mints tokens for every service. In the strict
	// profile nobody gets by refreshing what the user did not grant (RFC 9700 section
	// 2.3, RFC 6749 section 6).
	strict := token.Strict || t.Config.Strict()
	switch {
	case !t.bound(res, token.Service, token.ServicePlane), strict && token.Service != t.service():
		return t.spoiled(errRefresh)
	case !t.owns(res, token.Credential):
		return errClient
	}
	src, err := t.source(tx)
	if err == nil {
		err = reachableToken(src, res)
	}
	if fault.Is(err, fault.NotFound) {
		return t.spoiled(errRefresh)
	}
	if err != nil {
		return err
	}
	for _, word := range gateway.Words(token.Scope) {
		if !slices.Contains(t.Config.Scopes, word) {
			return errScopeMismatch
		}
	}
	if e := t.permitted(token.Scope); e != nil {
		return e
	}
	issue.Scope, issue.UserID, issue.Family, issue.Strict = token.Scope, token.AuthenticatedUserID, token.Family, token.Strict
	if issue.Family == "" {
		issue.Family = uuid.NewString()
	}
	return nil
}

// reuses reports whether the refresh token stays. That of a public client
// rotates in the strict profile and in families that began there: nothing else could show that it was stolen.
// Source: RFC 9700 section 2.2.2.
func (t *Request) reuses(issue *Issue) bool {
	strict := t.Config.Strict() || issue.Strict
	return t.Config.ReuseRefreshToken && (!strict || t.Spec().ClientType != gateway.ClientPublic)
}

// clockStep is by how much a time server may set a clock back at once without anybody
// losing the grace.
const clockStep = 5 * time.Second

// unknownRefresh refuses a refresh token that is not there. One that was spent
// a moment ago is answered with its successor once more, because the answer may
// have been lost; every other use of a spent one is a sign of theft.
// Source: RFC 9700 section 4.14.2.
func (t *Request) unknownRefresh(tx store.Reader, value string, issue *Issue) error {
	spent, err := t.spentValue(tx, value)
	if err != nil {
		return err
	}
	if spent == nil {
		return t.spoiled(errRefresh)
	}
	theft := &replay{family: spent.Family, refusal: t.spoiled(errRefresh)}
	if spent.Successor == "" || !t.graceHolds(spent.At) {
		return theft
	}
	// The row of the successor goes when it is redeemed, and then whoever sends
	// its predecessor is not who got the answer. It also goes when it is revoked
	// or ends; then there is nothing of the family to revoke.
	successor, err := tx.Get(gateway.Tokens, t.owner(), spent.Successor)
	if fault.Is(err, fault.NotFound) {
		return theft
	}
	if err != nil {
		return err
	}
	issue.Again = successor
	return t.inherit(tx, successor, issue)
}

// graceHolds reports whether the answer to a use at a time may have been lost a moment ago.
// A clock that was set back must not give more: where the use is still to come by it,
// nobody knows how long ago that was. Without a grace no clock is asked.
func (t *Request) graceHolds(at int64) bool {
	grace := t.grace()
	passed := t.Now.Sub(time.UnixMilli(at))
	return grace > 0 && passed >= -clockStep && passed < grace
}

// grace is for how long an answer may have been lost. Public clients have none:
// their refresh token is all that they prove, so whoever has stolen one would be
// answered like its owner.
func (t *Request) grace() time.Duration {
	if t.Spec().ClientType == gateway.ClientPublic {
		return 0
	}
	return time.Duration(t.Config.RefreshTokenGrace) * time.Second
}
