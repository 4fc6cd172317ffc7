package oauth

import (
	"context"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// spentLife is how long a spent value is remembered where refresh tokens have no
// end of their own. Later it is refused like one that never existed.
const spentLife = 90 * 24 * time.Hour

// replay is the error of a request that presents what was used up before. The
// family is revoked; then the refusal is the answer.
type replay struct {
	family  string
	refusal *Error
}

// Error implements error.
func (r *replay) Error() string { return r.refusal.Error() }

// spend remembers that a code or refresh token was used, in the strict profile and
// of families that began there: one plugin of a service may be strict and another
// not. successor is the name of the token that a refresh token is exchanged for.
func (t *Request) spend(tx store.Tx, value string, issue *Issue, successor string) error {
	if !t.Config.Strict() && !issue.Strict {
		return nil
	}
	life := spentLife
	if ttl := t.Config.RefreshTokenTTL; ttl > 0 {
		life = time.Duration(ttl) * time.Second
	}
	_, err := tx.Create(&model.Resource{
		Kind: gateway.SpentValues, Scope: t.owner(), Name: newName(), Created: t.Now,
		Spec: &gateway.Spent{
			Value: gateway.TokenKey(value), Credential: t.Application.Name, Family: issue.Family, Successor: successor,
			At: t.Now.UnixMilli(), DropAt: t.Now.Add(life).UnixMilli(),
		},
	})
	return err
}

// spentValue finds what is remembered of a value of the client; nil if nothing
// is. What another client spent is nobody else's business. It is where the client is: a
// family is revoked whatever another member remembers.
func (t *Request) spentValue(tx store.Reader, value string) (*gateway.Spent, error) {
	res, err := tx.Find(gateway.SpentValues, t.owner(), gateway.IndexSpent, gateway.TokenKey(value))
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	spent := res.Spec.(*gateway.Spent)
	if !t.owns(res, spent.Credential) {
		return nil, nil
	}
	return spent, nil
}

// revokeFamily revokes all tokens that came of one authorisation. What another call has
// revoked of them a moment ago is not accepted any more either when it returns nil.
func (s *Server) revokeFamily(ctx context.Context, scope, family string) error {
	_, _, err := revokeListed(ctx, s.Writer, gateway.Tokens, store.Query{Scope: scope, Index: gateway.IndexFamily, Value: family})
	if err != nil {
		return err
	}
	return s.Writer.Settle(ctx, scope)
}
