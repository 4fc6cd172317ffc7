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
	// left alone, and keeps nothing from being revoked.
	res, isRefresh, err := findToken(scopes.Of(tx, t.owner()), value)
	if err != nil {
		return "", err
	}
	if res == nil {
		spent, err := t.spentValue(tx, value)
		switch {
		case err != nil:
			return "", err
		case spent == nil:
			return "", t.namesakes(tx, value)
		}
		return spent.Family, nil
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

// namesakes fails if a value is not the client's, but was given to a client of another member
// that has the same client_id. Whoever sends it may be that one, unless the client has proven
// who it is: only the first client of a client_id is known here. So it must not be told that
// the token is dead.
func (t *Request) namesakes(tx store.Reader, value string) error {
	if t.Spec().ClientType != gateway.ClientPublic {
		return nil
	}
	src, err := t.source(tx)
	if err != nil {
		return err
	}
	for _, scope := range src.Scopes() {
		if scope == t.owner() {
			continue
		}
		id, err := givenTo(tx, scope, value)
		if err != nil {
			return err
		}
		if id == "" {
			continue
		}
		app, err := tx.Get(gateway.Applications, scope, id)
		switch {
		case fault.Is(err, fault.NotFound):
		case err != nil:
			return err
		case app.Spec.(*gateway.Application).ClientID == t.Spec().ClientID:
			return fault.New(fault.Unavailable, "the token is one of the %s %s of control plane %q, which has the client_id of the %s %s of %q: it can be revoked at a gateway of its own control plane",
				app.Kind.Name, app.Name, app.Scope, app.Kind.Name, t.Application.Name, t.owner())
		}
	}
	return nil
}

// givenTo returns the id of the application of a control plane that was given a token, or a
// refresh token that may be spent; empty if none was.
func givenTo(tx store.Reader, scope, value string) (string, error) {
	res, _, err := findToken(scopes.Of(tx, scope), value)
	if err != nil {
		return "", err
	}
	if res != nil {
		return res.Spec.(*gateway.Token).Credential, nil
	}
	res, err = tx.Find(gateway.SpentValues, scope, gateway.IndexSpent, gateway.TokenKey(value))
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return res.Spec.(*gateway.Spent).Credential, nil
}
