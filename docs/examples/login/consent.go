package main

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// passed are the parameters of an authorisation request that go on to the
// gateway. The rest of them are ours to say.
// Source: RFC 6749 section 4.1.1, RFC 7636 section 4.3.
var passed = []string{"client_id", "response_type", "scope", "redirect_uri", "state", "code_challenge", "code_challenge_method"}

// request takes the parameters of an authorisation request out of a query or a
// form; not ok if one is there twice, for two parsers could then read two
// different requests.
func request(from url.Values) (params url.Values, ok bool) {
	params = url.Values{}
	for _, name := range passed {
		switch values := from[name]; len(values) {
		case 0:
		case 1:
			params[name] = values
		default:
			return nil, false
		}
	}
	return params, true
}

// showConsent asks the user, who has to log in first.
func (a *app) showConsent(w http.ResponseWriter, r *http.Request) {
	s, ok := a.sessions.of(r)
	if !ok {
		redirect(w, "/login?"+r.URL.RawQuery)
		return
	}
	params, client, target, ok := a.asked(w, r, r.URL.Query())
	if !ok {
		return
	}
	a.show(w, http.StatusOK, "consent", map[string]any{
		"Application": client, "Target": target, "Scopes": strings.Fields(params.Get("scope")), "CSRF": s.csrf, "Params": params,
	})
}

// asked reads an authorisation request and looks up who asks. Where it cannot
// be told who asks, or the answer is to go to an address that the application
// has not registered, the user learns that here.
// Source: RFC 6749 section 4.1.2.1.
func (a *app) asked(w http.ResponseWriter, r *http.Request, from url.Values) (params url.Values, client *application, target string, ok bool) {
	params, ok = request(from)
	if !ok {
		a.refuse(w, http.StatusBadRequest, "A parameter of the request is there twice.")
		return nil, nil, "", false
	}
	client, err := a.gateway.application(r.Context(), params.Get("client_id"))
	switch {
	case errors.Is(err, errUnknownClient):
		a.refuse(w, http.StatusBadRequest, "Nobody knows the application that asks for access.")
	case err != nil:
		a.log.Error("the application cannot be looked up", "error", err)
		a.refuse(w, http.StatusBadGateway, "The gateway does not answer. Please try again later.")
	case len(client.RedirectURIs) == 0, params.Has("redirect_uri") && !slices.Contains(client.RedirectURIs, params.Get("redirect_uri")):
		a.refuse(w, http.StatusBadRequest, "The application asks for an answer at an address that is not its own.")
	default:
		target = client.RedirectURIs[0]
		if params.Has("redirect_uri") {
			target = params.Get("redirect_uri")
		}
		return params, client, target, true
	}
	return nil, nil, "", false
}

// decide takes the user's decision to the gateway, and the user to where the
// gateway says.
func (a *app) decide(w http.ResponseWriter, r *http.Request) {
	s, ok := a.sessions.of(r)
	if !ok || !same(s.csrf, r.PostFormValue("csrf")) {
		a.refuse(w, http.StatusForbidden, "The form is too old. Please go back to the application and start again.")
		return
	}
	params, _, target, ok := a.asked(w, r, r.PostForm)
	if !ok {
		return
	}
	if r.PostFormValue("decision") != "allow" {
		redirect(w, denied(target, params))
		return
	}
	target, err := a.gateway.authorize(r.Context(), params, s.user, r.Header.Values("Authorization"))
	if err != nil {
		a.log.Error("the gateway refused", "error", err)
		a.refuse(w, http.StatusBadGateway, "The gateway did not accept the decision.")
		return
	}
	redirect(w, target)
}

// denied is where the client learns that the user said no.
// Source: RFC 6749 section 4.1.2.1.
func denied(target string, params url.Values) string {
	u, err := url.Parse(target)
	if err != nil { // the gateway registers none that cannot be parsed
		return "/login"
	}
	q := u.Query()
	q.Set("error", "access_denied")
	if params.Has("state") {
		q.Set("state", params.Get("state"))
	}
	u.RawQuery = q.Encode()
	return u.String()
}
