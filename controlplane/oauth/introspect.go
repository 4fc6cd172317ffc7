package oauth

import (
	"net/http"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// introspection is the answer about a token. The members are empty for one that
// is not active, whatever the reason. Source: RFC 7662 section 2.2.
type introspection struct {
	Active    bool   `json:"active"`
	Scope     string `json:"scope,omitempty"`
	ClientID  string `json:"client_id,omitempty"`
	TokenType string `json:"token_type,omitempty"`
	// Expires and Issued are in seconds of Unix time.
	Expires int64 `json:"exp,omitempty"`
	Issued  int64 `json:"iat,omitempty"`
	// Subject is the end user; absent where the client acts for itself, so that
	// no client can be taken for a user.
	Subject string `json:"sub,omitempty"`
	// Audience is the id of the service that the token is bound to.
	Audience string `json:"aud,omitempty"`
	Issuer   string `json:"iss,omitempty"`
}

// introspect answers the introspection endpoint. Callers are confidential
// clients: a public one could not prove who it is (RFC 7662 section 2.1). They
// learn of their own tokens, and of the access tokens of others that are good
// for the service on whose route they ask, by the rule of the gateway itself, which
// is what a resource server needs; a refresh token is its own client's business.
func (s *Server) introspect(w http.ResponseWriter, r *http.Request, t *Request) error {
	if done, err := s.authenticated(w, r, t); done || err != nil {
		return err
	}
	if t.Spec().ClientType == gateway.ClientPublic {
		return t.refuse(w, errPublicIntrospect)
	}
	value, ok := t.params.text("token")
	if !ok || value == "" {
		return t.refuse(w, errTokenMissing)
	}
	var doc introspection
	if err := s.Store.View(r.Context(), func(tx store.Reader) (err error) {
		if err := t.stands(tx); err != nil {
			return err
		}
		doc, err = t.about(tx, value)
		return err
	}); err != nil {
		return err
	}
	noStore(w)
	return writeReply(w, http.StatusOK, doc)
}

// authenticated authenticates the client of an endpoint that issues nothing;
// done says that the answer was written.
func (s *Server) authenticated(w http.ResponseWriter, r *http.Request, t *Request) (done bool, err error) {
	c := t.readClient(r.Header)
	refusal, err := s.authenticate(r.Context(), t, c, true)
	if err != nil {
		return false, err
	}
	if refusal == nil && t.Application == nil {
		refusal = c.refused()
	}
	if refusal == nil {
		return false, nil
	}
	return true, t.refuse(w, refusal)
}

// about says what the client may know about a token.
func (t *Request) about(tx store.Reader, value string) (introspection, error) {
	src, err := t.source(tx)
	if err != nil {
		return introspection{}, err
	}
	res, isRefresh, err := findToken(src, value)
	if res == nil || err != nil {
		return introspection{}, err
	}
	err = reachableToken(src, res)
	if fault.Is(err, fault.NotFound) {
		return introspection{}, nil
	}
	if err != nil {
		return introspection{}, err
	}
	token := res.Spec.(*gateway.Token)
	own := t.owns(res, token.Credential)
	expires := lifetime(res)
	if isRefresh {
		expires = token.DropAt
	} else if !own && !contract.GoodFor([]byte(token.Service), t.Service, "", t.Config.GlobalCredentials) {
		return introspection{}, nil
	}
	if (isRefresh && !own) || (expires != 0 && t.Now.UnixMilli() >= expires) {
		return introspection{}, nil
	}
	app, err := shownBy(tx, src, res)
	if err != nil {
		return introspection{}, err
	}
	doc := introspection{
		Active: true, Scope: token.Scope, ClientID: app.Spec.(*gateway.Application).ClientID,
		Expires: expires / 1000, Issued: res.Created.Unix(), Subject: token.AuthenticatedUserID,
		Audience: token.Service, Issuer: t.issuer,
	}
	if !isRefresh {
		doc.TokenType = TokenType
	}
	return doc, nil
}

// findToken finds the row of an access token or of a refresh token; nil if there
// is none.
func findToken(src scopes.Source, value string) (res *model.Resource, isRefresh bool, err error) {
	res, err = src.Find(gateway.Tokens, gateway.IndexAccessToken, gateway.TokenKey(value))
	if fault.Is(err, fault.NotFound) {
		isRefresh = true
		res, err = src.Find(gateway.Tokens, gateway.IndexRefreshToken, value)
	}
	if fault.Is(err, fault.NotFound) {
		return nil, false, nil
	}
	return res, isRefresh, err
}
