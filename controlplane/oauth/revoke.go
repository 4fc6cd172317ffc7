package oauth

import (
	"errors"
	"net/http"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
)

// revoke answers the revocation endpoint. 200 says that the token is not
// accepted by any gateway; a token that is unknown or another client's gets the
// same answer and is left alone. Whatever keeps that from being true is a 503,
// after which the client must assume that the token is good. Public clients may
// revoke what is theirs. Source: RFC 7009 section 2.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request, t *Request) error {
	if done, err := s.authenticated(w, r, t); done || err != nil {
		return err
	}
	value, ok := t.params.text("token")
	if !ok || value == "" {
		return t.refuse(w, errTokenMissing)
	}
	switch err := s.revokeToken(r, t, value); {
	case fault.Is(err, fault.Unstored), errors.Is(err, errOvertaken):
		return err
	case err != nil:
		return fault.Wrap(fault.Unavailable, err, "revoke a token")
	}
	noStore(w)
	w.WriteHeader(http.StatusOK)
	return nil
}

// revokeToken revokes an access token together with the refresh token of its
// row, and a refresh token together with everything from the same authorisation;
// also one that was spent, because the client may not have got its successor. All
// of it goes in one transaction: a process that dies has revoked all or nothing. Of
// what it did not find, somebody may have revoked a part a moment ago: that is waited for.
func (s *Server) revokeToken(r *http.Request, t *Request, value string) error {
	var family, rest string
	commit, err := s.Writer.Write(r.Context(), model.Config, func(tx store.Tx) error {
		rest = ""
		err := t.stands(tx)
		if err != nil {
			return err
		}
		if family, err = t.deleteToken(tx, value); err != nil || family == "" {
			return err
		}
		q := store.Query{Scope: t.owner(), Index: gateway.IndexFamily, Value: family, Limit: revokeBatch}
		rows, err := store.ListAll(tx, gateway.Tokens, q)
		if err != nil {
			return err
		}
		if len(rows) == revokeBatch { // no family of ours is as large
			rest = family
		}
		for _, row := range rows {
			if err := tx.Delete(gateway.Tokens, row.Scope, row.Name, 0); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case rest != "":
		return s.revokeFamily(r.Context(), t.owner(), rest)
	case family != "" || len(commit.Changes) == 0:
		return s.Writer.Settle(r.Context(), t.owner())
	}
	return nil
}

// deleteToken deletes the row of a token of the client, and returns the family
// that must go with it.
func (t *Request) deleteToken(tx store.Tx, value string) (family string, err error) {
	// Tokens of the client are where it is. What another member has of the same value is
	// not looked at: it is left alone, and keeps nothing from being revoked.
	res, isRefresh, err := findToken(scopes.Of(tx, t.owner()), value)
	if err != nil {
		return "", err
	}
	if res == nil {
		spent, err := t.spentValue(tx, value)
		if spent == nil {
			return "", err
		}
		return spent.Family, err
	}
	token := res.Spec.(*gateway.Token)
	if !t.owns(res, token.Credential) {
		return "", nil
	}
	if isRefresh {
		family = token.Family
	}
	return family, tx.Delete(gateway.Tokens, res.Scope, res.Name, 0)
}
