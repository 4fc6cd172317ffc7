package oauth

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TokenType is the only type of token, RFC 6750.
const TokenType = gateway.TokenBearer

// token answers the token endpoint. All checks before the grant are made; the last one that
// fails determines the answer.
func (s *Server) token(w http.ResponseWriter, r *http.Request, t *Request) error {
	var refusal *Error
	name, _ := t.params.text("grant_type")
	grant := s.grants[name]
	t.outcome.grant = s.knownGrant(name)
	redirectless := grant != nil && !grant.NeedsRedirect()
	if grant == nil || !grant.Enabled(t.Config) {
		refusal = errGrantType
	}
	e, err := s.authenticate(r.Context(), t, t.readClient(r.Header), redirectless)
	if err != nil {
		return err
	}
	if e != nil {
		refusal = e
	}
	if refusal != nil {
		return t.refuse(w, refusal)
	}
	issue, err := grant.Authorize(t)
	if err != nil {
		return s.refused(w, r, t, err)
	}
	doc, err := s.mint(r.Context(), t, issue)
	if err != nil {
		return s.refused(w, r, t, err)
	}
	if name == (Password{}).Type() {
		s.legacy(r.Context(), t, name)
	}
	doc.State = t.state()
	t.outcome.token = true
	noStore(w)
	if doc.unheard {
		w.Header().Set("Warning", warningUnheard)
	}
	return writeReply(w, http.StatusOK, doc)
}

// familyTimeout bounds the revocation of a family, which goes on if the client has left.
const familyTimeout = 30 * time.Second

// refused writes the answer to a token request that failed. It returns errors that are not
// the client's fault.
func (s *Server) refused(w http.ResponseWriter, r *http.Request, t *Request, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return t.refuse(w, e)
	}
	if gone := clientGone(err); gone != nil {
		return t.refuse(w, gone)
	}
	again, ok := errors.AsType[*replay](err)
	if !ok {
		return err
	}
	s.Log.WarnContext(r.Context(), "a code or refresh token was used again: its tokens are revoked",
		"application", t.Application.Name, "plugin", t.Plugin)
	// A thief must not be able to stop the revocation by leaving.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), familyTimeout)
	defer cancel()
	if err := s.revokeFamily(ctx, t.owner(), again.family); err != nil {
		return err
	}
	return t.refuse(w, again.refusal)
}

// clientGone returns the refusal for an application that was deleted between its
// authentication and the transaction, and nil for other errors.
func clientGone(err error) *Error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Code != fault.Dangling {
		return nil
	}
	if ref, ok := f.Subject.(store.DanglingReference); ok && ref.Ref == gateway.RefCredential {
		return errClient
	}
	return nil
}
