package cloudapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/portal"
)

// The cookies of a session.
const (
	cookieAccess  = "portalaccesstoken"
	cookieRefresh = "portalrefreshtoken"
)

// credentials are what a developer logs in with. Nothing is said about the form of either: both only
// have to be the right ones.
type credentials struct {
	Username string `json:"username" jsonschema:"maxLength=254"`
	Password string `json:"password" jsonschema:"maxLength=256"`
}

var loginForm = newForm(credentials{})

// authenticate logs a developer in.
func (a *API) authenticate(w http.ResponseWriter, r *http.Request, at *model.Resource) error {
	given, err := object(w, r)
	if err != nil {
		return err
	}
	if missing := lacking(given, "username", "password"); len(missing) > 0 {
		return &problem{Status: http.StatusBadRequest, Title: titleInvalid, Detail: "Required fields are missing", Invalid: missing}
	}
	var who credentials
	if err := loginForm.check(a, given, &who); err != nil {
		return err
	}
	login, err := a.Accounts.Login(r.Context(), portal.Attempt{
		Portal: at.Name, Email: who.Username, Password: who.Password,
		Source: httpkit.SourceOf(r), Request: r.URL.Path, UserAgent: r.UserAgent(), Trace: traceOf(r),
	})
	if err != nil {
		return err
	}
	switch {
	case login.Tokens != nil:
		keep(w, login.Tokens)
		return nil
	case login.Locked > 0:
		return later(w, login.Locked.Seconds())
	case login.Outcome == audit.Invalid:
		return &problem{Status: http.StatusForbidden, Title: titleForbidden, Detail: "Developers of this portal do not log in with a password"}
	case login.Unapproved:
		return &problem{Status: http.StatusUnauthorized, Title: "Approval Required", Detail: "Your account has not been approved yet."}
	}
	return &problem{Status: http.StatusUnauthorized, Title: "Invalid Credentials", Detail: "You have entered an invalid email or password."}
}

// lacking lists members that are missing or empty.
func lacking(given map[string]any, names ...string) (list []invalid) {
	for _, name := range slices.Sorted(slices.Values(names)) {
		if v, ok := given[name]; !ok || v == nil || v == "" {
			list = append(list, invalid{Field: name, Reason: "is required", Rule: ruleRequired, Source: fromBody})
		}
	}
	return list
}

// keep answers with the cookies of a session.
func keep(w http.ResponseWriter, tokens *portal.Tokens) {
	setCookie(w, cookieAccess, tokens.Access, int(portal.AccessLife.Seconds()))
	setCookie(w, cookieRefresh, tokens.Refresh, int(portal.RefreshLife.Seconds()))
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
}

// forget answers without them.
func forget(w http.ResponseWriter) {
	setCookie(w, cookieAccess, "", -1)
	setCookie(w, cookieRefresh, "", -1)
}

func setCookie(w http.ResponseWriter, name, value string, age int) {
	http.SetCookie(w, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: true, SameSite: http.SameSiteNoneMode}) //nolint:gosec // for pages of other sites, too; see ownPage
}

// cookie is the value of the only cookie of a name. Of two, nobody knows who has set which.
func cookie(r *http.Request, name string) string {
	if list := r.CookiesNamed(name); len(list) == 1 {
		return list[0].Value
	}
	return ""
}

func (a *API) me(w http.ResponseWriter, r *http.Request, at *model.Resource) error {
	dev, err := a.Accounts.Who(r.Context(), at.Name, cookie(r, cookieAccess))
	if err != nil {
		return unauthorized(err)
	}
	served{a, developers}.show(w, r, http.StatusOK, dev, nil)
	return nil
}

// refresh exchanges the cookies.
func (a *API) refresh(w http.ResponseWriter, r *http.Request, at *model.Resource) error {
	tokens, err := a.Accounts.Refresh(r.Context(), at.Name, cookie(r, cookieRefresh))
	if err != nil {
		return unauthorized(err)
	}
	keep(w, tokens)
	return nil
}

// logout ends the session and takes the cookies back, whether they count or not.
func (a *API) logout(w http.ResponseWriter, r *http.Request, at *model.Resource) error {
	for _, name := range []string{cookieAccess, cookieRefresh} {
		if err := a.Accounts.Leave(r.Context(), at.Name, cookie(r, name)); err != nil {
			return err
		}
	}
	forget(w)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// register adds a developer who asks for it.
func (a *API) register(w http.ResponseWriter, r *http.Request, at *model.Resource) error {
	given, err := object(w, r)
	if err != nil {
		return err
	}
	var dev cloud.Developer
	if _, ok := given["status"]; ok {
		return refused(invalid{Field: "status", Reason: "property status should not exist", Rule: ruleUnknown, Source: fromBody})
	}
	if err := (form{developers}).check(a, given, &dev); err != nil {
		return err
	}
	dev.Portal = at.Name
	if err := a.Accounts.Register(r.Context(), httpkit.SourceOf(r), dev); err != nil {
		return gone(err)
	}
	w.WriteHeader(http.StatusCreated)
	return nil
}

// verification and verified are an exchange of tokens, reset the use of the second.
type (
	verification struct {
		Token string `json:"token" jsonschema_extras:"x-check=uuid"`
	}
	verified struct {
		Email string `json:"email"`
		Token string `json:"token"`
	}
	reset struct {
		Token    string `json:"token" jsonschema_extras:"x-check=uuid"`
		Password string `json:"password" jsonschema_extras:"x-check=password"`
	}
)

var (
	verificationForm = newForm(verification{})
	resetForm        = newForm(reset{})
)

func (a *API) verify(w http.ResponseWriter, r *http.Request, at *model.Resource) error {
	var given verification
	if err := verificationForm.fill(a, w, r, &given); err != nil {
		return err
	}
	email, token, err := a.Accounts.Verify(r.Context(), httpkit.SourceOf(r), at.Name, strings.ToLower(given.Token))
	if err != nil {
		return gone(err)
	}
	a.answer(w, r, http.StatusAccepted, verified{email, token})
	return nil
}

func (a *API) reset(w http.ResponseWriter, r *http.Request, at *model.Resource) error {
	var given reset
	if err := resetForm.fill(a, w, r, &given); err != nil {
		return err
	}
	if err := a.Accounts.Reset(r.Context(), httpkit.SourceOf(r), at.Name, strings.ToLower(given.Token), given.Password); err != nil {
		return gone(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
