package oauth

import (
	"net/http"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// codeLife is how long a code can be exchanged. Source: RFC 6749 section 4.1.2,
// at most ten minutes.
const codeLife = 5 * time.Minute

// responseType is a value of response_type.
type responseType string

// Response types of RFC 6749 section 3.1.1.
const (
	responseCode  responseType = "code"
	responseToken responseType = "token"
)

// authorization is an authorisation request after its checks.
type authorization struct {
	kind              responseType
	user, scope       string
	target            string
	challenge, method string
}

// authorize answers the authorisation endpoint. It is called by the operator's
// backend, which has asked the end user, proves itself by the provision key, and
// redirects the user to the redirect_uri of the answer, success or not.
// Source: requirement "POST /oauth2/authorize".
func (s *Server) authorize(w http.ResponseWriter, r *http.Request, t *Request) error {
	t.outcome.grant = t.authorizes()
	user, e := t.user()
	if e != nil {
		return t.refuse(w, e)
	}
	if id, ok := t.params.text("client_id"); ok && id != "" {
		if err := s.findClient(r.Context(), t, id); err != nil {
			return err
		}
	}
	a, e := t.authorization()
	if e != nil {
		return t.refuseTo(w, a.target, e)
	}
	a.user = user
	if a.kind == responseToken {
		return s.implicit(w, r, t, a)
	}
	return s.code(w, r, t, a)
}

// authorization runs all checks; the last that fails is the answer.
func (t *Request) authorization() (a authorization, refusal *Error) {
	note := func(e *Error) {
		if e != nil {
			refusal = e
		}
	}
	name, _ := t.params.text("response_type")
	a.kind = responseType(name)
	if !t.offers(a.kind) {
		note(errResponseType)
	}
	var e *Error
	a.scope, e = t.scope()
	note(e)
	a.target, e = t.redirectTarget()
	note(e)
	a.challenge, a.method, e = t.challenge()
	if e == nil && a.challenge == "" && t.Application != nil && t.needsPKCE() {
		e = errChallengeRequired(t.Spec().ClientType)
	}
	note(e)
	return a, refusal
}

// authorizes is the grant that an authorisation request begins.
func (t *Request) authorizes() string {
	switch name, _ := t.params.text("response_type"); responseType(name) {
	case responseCode:
		return AuthorizationCode{}.Type()
	case responseToken:
		return ImplicitGrant
	}
	return OtherGrant
}

func (t *Request) offers(kind responseType) bool {
	switch kind {
	case responseCode:
		return t.Config.EnableAuthorizationCode
	case responseToken: // Source: RFC 9700 section 2.1.2 for the strict profile
		return t.Config.EnableImplicitGrant && !t.Config.Strict()
	}
	return false
}

// code issues an authorisation code.
func (s *Server) code(w http.ResponseWriter, r *http.Request, t *Request, a authorization) error {
	uri, _ := t.params.text("redirect_uri")
	spec := &gateway.Code{
		Credential: t.Application.Name, Plugin: t.Plugin, PluginPlane: t.elsewhere(t.plugin.Scope), Service: t.service(), ServicePlane: t.servicePlane(), Code: gateway.RandomString(),
		Scope: a.scope, AuthenticatedUserID: a.user, Challenge: a.challenge, Method: a.method,
		RedirectURI: uri,
	}
	_, err := s.Writer.Write(r.Context(), model.Credential, func(tx store.Tx) error {
		if err := t.stands(tx); err != nil {
			return err
		}
		spec.DropAt = t.Now.Add(codeLife).UnixMilli()
		_, err := tx.Create(&model.Resource{Kind: gateway.Codes, Scope: t.owner(), Name: newName(), Created: t.Now, Spec: spec})
		return err
	})
	if gone := clientGone(err); gone != nil {
		return t.refuse(w, gone)
	}
	if err != nil {
		return err
	}
	t.outcome.code = true
	return t.redirect(w, http.StatusOK, redirectURI(a.target, t.answer(map[string]any{"code": spec.Code})))
}

// implicit issues an access token at once, never with a refresh token.
// Source: RFC 6749 section 4.2.
func (s *Server) implicit(w http.ResponseWriter, r *http.Request, t *Request, a authorization) error {
	doc, err := s.mint(r.Context(), t, &Issue{Scope: a.scope, UserID: a.user, Durability: model.Credential})
	if gone := clientGone(err); gone != nil {
		return t.refuse(w, gone)
	}
	if err != nil {
		return err
	}
	s.legacy(r.Context(), t, ImplicitGrant)
	t.outcome.token = true
	values := map[string]any{"access_token": doc.AccessToken, "token_type": TokenType}
	if doc.ExpiresIn > 0 {
		values["expires_in"] = doc.ExpiresIn
	}
	return t.redirect(w, http.StatusOK, redirectFragment(a.target, t.answer(values)))
}

// answer completes the parameters of an authorisation response. The issuer tells
// clients of several servers apart who answers, RFC 9207.
func (t *Request) answer(values map[string]any) map[string]any {
	if state := t.state(); state != nil {
		values["state"] = state
	}
	if t.Config.Strict() && t.issuer != "" {
		values["iss"] = t.issuer
	}
	return values
}

// refuseTo answers with an error by way of the user's browser, or directly
// where there is nowhere to send it.
func (t *Request) refuseTo(w http.ResponseWriter, target string, e *Error) error {
	if target == "" {
		return t.refuse(w, e)
	}
	t.outcome.reason = e.Type
	values := map[string]any{"error": e.Type, "error_description": e.Description}
	return t.redirect(w, e.Status, redirectURI(target, t.answer(values)))
}

func (t *Request) redirect(w http.ResponseWriter, status int, uri string) error {
	noStore(w)
	return writeReply(w, status, map[string]string{"redirect_uri": uri})
}
