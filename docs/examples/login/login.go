package main

import (
	"crypto/rand"
	"net/http"
)

// showLogin shows the form. Before anybody has logged in, a cookie that the
// form repeats keeps other pages from logging users in as somebody else.
func (a *app) showLogin(w http.ResponseWriter, r *http.Request) {
	a.loginForm(w, http.StatusOK, r.URL.RawQuery, "")
}

func (a *app) loginForm(w http.ResponseWriter, status int, query, problem string) {
	token := rand.Text()
	http.SetCookie(w, a.sessions.cookie("login", token, http.SameSiteStrictMode))
	a.show(w, status, "login", map[string]string{"CSRF": token, "Query": query, "Problem": problem})
}

// login checks name and password and goes on with what the user came for. That
// is always a request of our own, whatever the form says: nobody is sent away
// from here.
func (a *app) login(w http.ResponseWriter, r *http.Request) {
	if !same(a.sessions.read(r, "login"), r.PostFormValue("csrf")) {
		a.loginForm(w, http.StatusForbidden, r.PostFormValue("query"), "Please try again.")
		return
	}
	user := a.directory.verify(r.PostFormValue("username"), r.PostFormValue("password"))
	if user == "" {
		a.loginForm(w, http.StatusUnauthorized, r.PostFormValue("query"), "Name and password do not go together, or were tried too often.")
		return
	}
	a.sessions.begin(w, r, user)
	redirect(w, "/authorize?"+r.PostFormValue("query"))
}

// logout ends the session.
func (a *app) logout(w http.ResponseWriter, r *http.Request) {
	s, ok := a.sessions.of(r)
	if !ok || !same(s.csrf, r.PostFormValue("csrf")) {
		a.refuse(w, http.StatusForbidden, "The form is too old.")
		return
	}
	a.sessions.end(r)
	redirect(w, "/login")
}

// redirect answers 303: the browser goes on with GET, and never repeats a form
// elsewhere. Source: RFC 9700 section 4.12.
func redirect(w http.ResponseWriter, target string) {
	w.Header().Set("Location", target)
	w.WriteHeader(http.StatusSeeOther)
}
