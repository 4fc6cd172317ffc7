package oauth

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// TokenType is the only type of token there is, RFC 6750.
const TokenType = "bearer"

// token answers the token endpoint. The checks before the grant all run; the
// last that fails is the answer.
func (s *Server) token(w http.ResponseWriter, r *http.Request, scope string, t *Request, state any) error {
	var refusal *Error
	name, _ := t.params.text("grant_type")
	grant := s.grants[name]
	if grant == nil || !grant.Enabled(t.Config) {
		grant, refusal = nil, errGrantType
	}
	c := readClient(t.params, r.Header, t.Config.AuthHeaderName)
	err := s.Store.View(r.Context(), func(tx store.Reader) error {
		e, err := s.authenticate(tx, scope, t, c, name == ClientCredentials{}.Type())
		if e != nil {
			refusal = e
		}
		return err
	})
	if err != nil {
		return err
	}
	if refusal != nil {
		return refuse(w, refusal, state)
	}
	issue, err := grant.Authorize(t)
	if e, ok := errors.AsType[*Error](err); ok {
		return refuse(w, e, state)
	}
	if err != nil {
		return err
	}
	doc, err := s.mint(r.Context(), scope, t, issue)
	if fault.Is(err, fault.Dangling) { // the application was deleted meanwhile
		return refuse(w, errClient, state)
	}
	if err != nil {
		return err
	}
	doc.State = state
	noStore(w)
	return writeReply(w, http.StatusOK, doc)
}

// mint stores a new token and returns the success document of RFC 6749
// section 5.1.
func (s *Server) mint(ctx context.Context, scope string, t *Request, issue *Issue) (*reply, error) {
	spec := &gateway.Token{
		Credential: t.Application.Name, Service: t.Service, TokenType: TokenType,
		AccessToken: gateway.RandomString(), ExpiresIn: max(t.Config.TokenExpiration, 0),
		Scope: issue.Scope, AuthenticatedUserID: issue.UserID,
	}
	if t.Config.GlobalCredentials {
		spec.Service = ""
	}
	if issue.Refresh && spec.ExpiresIn > 0 {
		spec.RefreshToken = gateway.RandomString()
	}
	now := s.Now()
	if spec.ExpiresIn > 0 && t.Config.RefreshTokenTTL > 0 {
		spec.DropAt = now.Add(time.Duration(t.Config.RefreshTokenTTL) * time.Second).UnixMilli()
	}
	_, err := s.Writer.Write(ctx, model.Credential, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{
			Kind: gateway.Tokens, Scope: scope, Name: uuid.NewString(), Created: now, Spec: spec,
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	if s.Minted != nil {
		s.Minted(scope, contract.HashToken([]byte(spec.AccessToken)))
	}
	return &reply{
		AccessToken: spec.AccessToken, TokenType: TokenType,
		ExpiresIn: spec.ExpiresIn, RefreshToken: spec.RefreshToken,
	}, nil
}
