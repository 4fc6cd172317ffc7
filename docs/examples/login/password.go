package main

import (
	"encoding/json"
	"net/http"
	"net/url"
)

// password is the legacy flow: a client that still collects passwords sends
// them here, and gets the gateway's answer unchanged. The password ends here:
// the gateway believes the provision key and never looks at it.
// Source: requirement "Resource Owner Password Credentials flow (legacy)".
func (a *app) password(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		oauthError(w, "invalid_request", "The form cannot be read")
		return
	}
	for name, values := range r.PostForm {
		if len(values) > 1 {
			oauthError(w, "invalid_request", name+" is there twice")
			return
		}
	}
	if g := r.PostForm.Get("grant_type"); g != "" && g != "password" {
		oauthError(w, "unsupported_grant_type", "Ask the gateway itself for other grants")
		return
	}
	user := a.directory.verify(r.PostForm.Get("username"), r.PostForm.Get("password"))
	if user == "" {
		oauthError(w, "invalid_grant", "Invalid username or password")
		return
	}
	form := url.Values{"grant_type": {"password"}, "authenticated_userid": {user}}
	for _, name := range []string{"client_id", "client_secret", "scope", "state"} {
		if r.PostForm.Has(name) {
			form.Set(name, r.PostForm.Get(name))
		}
	}
	said, err := a.gateway.post(r.Context(), "/oauth2/token", form, r.Header.Values("Authorization"))
	if err != nil {
		a.log.Error("the gateway cannot be asked for a token", "error", err)
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	for _, name := range []string{"Content-Type", "Www-Authenticate", "Pragma"} {
		if v, ok := said.header[name]; ok {
			w.Header()[name] = v
		}
	}
	w.WriteHeader(said.status)
	_, _ = w.Write(said.body) // nobody is left to tell
}

// oauthError refuses as a token endpoint does. Source: RFC 6749 section 5.2.
func oauthError(w http.ResponseWriter, code, description string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": code, "error_description": description})
}
