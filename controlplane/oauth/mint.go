package oauth

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// mint uses up what the request presents, stores a new token, both in one
// transaction, and returns the success document of RFC 6749 section 5.1. Of
// requests that present the same, at any number of servers, one succeeds.
func (s *Server) mint(ctx context.Context, t *Request, issue *Issue) (*reply, error) {
	var stored, again *model.Resource
	commit, err := s.Writer.Write(ctx, issue.Durability, func(tx store.Tx) error {
		if err := t.stands(tx); err != nil {
			return err
		}
		filled := *issue
		filled.Name = newName()
		if issue.Redeem != nil {
			if err := issue.Redeem(tx, &filled); err != nil {
				return err
			}
		}
		if again = filled.Again; again != nil {
			return nil
		}
		stored = t.row(&filled)
		if filled.Replace != nil {
			_, err := tx.Update(stored, filled.Replace.Version)
			return err
		}
		_, err := tx.Create(stored)
		return err
	})
	if err != nil && len(commit.Changes) == 0 {
		return nil, orLater(err)
	}
	if again != nil {
		stored = again
		// Nothing was written now. What was, by whoever presented the same before, may not
		// have reached every gateway yet.
		err = s.Writer.Settle(ctx, stored.Scope)
	}
	if err != nil {
		// What the client presented is used up, so it gets what took its place: a
		// refusal would have it come again with what then looks stolen. That some
		// filter has not yet heard of the token before this one is said beside it.
		s.Log.WarnContext(ctx, "a token was issued, but its predecessor may still be accepted somewhere", "plugin", t.Plugin, "error", err)
	}
	doc := t.reply(stored)
	doc.unheard = err != nil
	return doc, nil
}

// reply is the success document for a token. Of one that was issued some time
// ago it says how long it lives on, at least a second: no expires_in would say
// that it never ends.
func (t *Request) reply(res *model.Resource) *reply {
	token := res.Spec.(*gateway.Token)
	doc := &reply{
		AccessToken: token.AccessToken, TokenType: TokenType, ExpiresIn: token.ExpiresIn, RefreshToken: token.RefreshToken,
	}
	// What was granted may differ from what was asked for, as when a token is
	// refreshed (RFC 6749 section 5.1). The compatible profile never says it.
	if t.Config.Strict() {
		doc.Scope = token.Scope
	}
	if doc.ExpiresIn > 0 {
		doc.ExpiresIn = max(1, doc.ExpiresIn-max(0, t.Now.Unix()-res.Created.Unix()))
	}
	return doc
}

// row is the token that an issue asks for.
func (t *Request) row(issue *Issue) *model.Resource {
	spec := &gateway.Token{
		Credential: t.Application.Name, Service: t.service(), ServicePlane: t.servicePlane(), TokenType: TokenType,
		Scope: issue.Scope, AuthenticatedUserID: issue.UserID, Family: issue.Family,
		Strict: issue.Strict || t.Config.Strict(),
	}
	name := issue.Name
	if issue.Replace != nil {
		old := *issue.Replace.Spec.(*gateway.Token)
		old.Family = issue.Family
		spec, name = &old, issue.Replace.Name
	}
	spec.AccessToken, spec.ExpiresIn, spec.DropAt = gateway.RandomString(), max(t.Config.TokenExpiration, 0), 0
	if issue.Refresh && spec.ExpiresIn > 0 && issue.Replace == nil {
		spec.RefreshToken = gateway.RandomString()
	}
	// The row's lifetime ends the access token too, also where there is no
	// refresh token.
	if spec.ExpiresIn > 0 && t.Config.RefreshTokenTTL > 0 {
		spec.DropAt = t.Now.Add(time.Duration(t.Config.RefreshTokenTTL) * time.Second).UnixMilli()
	}
	return &model.Resource{Kind: gateway.Tokens, Scope: t.owner(), Name: name, Created: t.Now, Spec: spec}
}

// newName returns a name for a row that this package creates. Names ascend with time, so that
// the indexes of the store grow at one place. A name says when it was made and is no secret;
// nothing here is proved by one.
func newName() string { return uuid.Must(uuid.NewV7()).String() }

// orLater makes an error of a reference other than the client (a service or
// plugin that was deleted while the request was on its way) one that is over
// when the gateways know of it.
func orLater(err error) error {
	if fault.Is(err, fault.Dangling) && clientGone(err) == nil {
		return fault.Wrap(fault.Unavailable, err, "the plugin is being changed")
	}
	return err
}
