package gatewayapi

import (
	"cmp"
	"context"
	"net/http"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/oauth"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Revocations revokes many tokens at once.
type Revocations interface {
	// Revoke deletes the tokens that by describes. It returns their number when no filter
	// accepts them any more. As with [admit.Gate.Write], if it returns an error and a commit
	// with changes, the commit stands, and only this is not certain. [oauth.Revocations]
	// implements it.
	Revoke(ctx context.Context, scope string, by oauth.RevokeBy) (int, store.Commit, error)
}

// tokenEndpoints returns the endpoints for the tokens of somebody. They list the tokens of a
// consumer, and revoke all tokens of an application, a consumer or an end user in one call.
func (a *API) tokenEndpoints() []httpkit.Endpoint {
	tokens, ok := a.byKind[gateway.Tokens.Name]
	if !ok {
		return nil
	}
	ofConsumer := "/" + gateway.Consumers.Path + "/{" + pathOwner + "}/" + gateway.Tokens.Path
	p := place{api: a, collection: tokens, nested: true, sources: a.tokensOfConsumer}
	list := p.about(p.lists(endpoint(http.MethodGet, ofConsumer, "List the tokens of a consumer", p.list)))
	if a.Revocations == nil {
		return list
	}
	byUser := endpoint(http.MethodDelete, "/"+gateway.Tokens.Path, "Revoke every token of an end user", a.revokeOfUser)
	byUser.Contract.Query = []httpkit.Parameter{{Name: gateway.IndexUser, Type: "string", Summary: "The end user; without it nothing is deleted"}}
	return append(list,
		answering(byUser, schemaRevoked, http.StatusMethodNotAllowed),
		answering(endpoint(http.MethodDelete, "/"+gateway.Applications.Path+"/{"+pathOwner+"}/"+gateway.Tokens.Path,
			"Revoke every token of an application", a.revokeOf(gateway.Applications, func(id string) oauth.RevokeBy { return oauth.RevokeBy{Credential: id} })),
			schemaRevoked, http.StatusNotFound),
		answering(endpoint(http.MethodDelete, ofConsumer,
			"Revoke every token of a consumer", a.revokeOf(gateway.Consumers, func(id string) oauth.RevokeBy { return oauth.RevokeBy{Consumer: id} })),
			schemaRevoked, http.StatusNotFound),
	)
}

// tokensOfConsumer returns the union of the tokens of a consumer's applications.
func (a *API) tokensOfConsumer(r store.Reader, request *http.Request) (source, error) {
	scope := a.scope(request)
	owner, err := admit.Lookup(r, admit.Address{Kind: gateway.Consumers, Scope: scope, Key: request.PathValue(pathOwner)})
	if err != nil {
		return source{}, err
	}
	s := source{list: gateway.Tokens.Name + "\n" + gateway.RefConsumer + "\n" + owner.Name}
	applications, err := store.ListAll(r, gateway.Applications, store.Query{Scope: scope, Index: gateway.RefConsumer, Value: owner.Name})
	for _, app := range applications {
		s.queries = append(s.queries, store.Query{Scope: scope, Index: gateway.RefCredential, Value: app.Name})
	}
	return s, err
}

// revokeOf revokes the tokens of the resource in the path. Another call may have just deleted
// the resource with its tokens. So, as with [admit.Gate.Delete], Unavailable has precedence
// over NotFound.
func (a *API) revokeOf(k *model.Kind, by func(id string) oauth.RevokeBy) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var owner *model.Resource
		err := a.Store.View(r.Context(), func(reader store.Reader) (err error) {
			owner, err = admit.Lookup(reader, admit.Address{Kind: k, Scope: a.scope(r), Key: r.PathValue(pathOwner)})
			return err
		})
		if fault.Is(err, fault.NotFound) {
			err = cmp.Or(a.Gate.Settle(r.Context(), a.scope(r)), err)
		}
		if err != nil {
			a.fail(w, r, err, call{})
			return
		}
		a.revoke(w, r, by(owner.Name))
	}
}

// revokeOfUser requires exactly one filter. A call that has lost its filter on the way must
// not delete all tokens.
func (a *API) revokeOfUser(w http.ResponseWriter, r *http.Request) {
	query, err := httpkit.Query(r)
	if err != nil {
		a.fail(w, r, err, call{})
		return
	}
	users := query[gateway.IndexUser]
	switch {
	case len(query) == 0:
		w.Header().Set("Allow", "GET, HEAD, OPTIONS, POST")
		httpkit.MethodNotAllowed(w, r)
	case len(query) > 1 || len(users) != 1 || users[0] == "":
		text := "tokens are revoked by exactly one " + gateway.IndexUser + ", which must be an unempty string"
		a.fail(w, r, &httpkit.BodyError{Status: http.StatusBadRequest, Message: text}, call{})
	default:
		a.revoke(w, r, oauth.RevokeBy{UserID: users[0]})
	}
}

func (a *API) revoke(w http.ResponseWriter, r *http.Request, by oauth.RevokeBy) {
	httpkit.EntryOf(r.Context()).Kind = gateway.Tokens.Name
	n, commit, err := a.Revocations.Revoke(r.Context(), a.scope(r), by)
	if err == nil || len(commit.Changes) > 0 {
		revision(w, r, commit)
	}
	if err != nil {
		a.fail(w, r, err, call{})
		return
	}
	reply(w, r, http.StatusOK, map[string]any{"revoked": n})
}
