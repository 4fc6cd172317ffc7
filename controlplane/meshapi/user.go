package meshapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Users and groups that exist without being declared.
const (
	userAnonymous      = "mesh-system:anonymous"
	userAdministrator  = "mesh-system:admin"
	groupAnonymous     = "mesh-system:unauthenticated"
	groupAuthenticated = "mesh-system:authenticated"
	groupAdministrator = "mesh-system:admin"
)

// User is who calls.
type User struct {
	Name   string   `json:"name"`
	Groups []string `json:"groups"`
}

// Administrator may do everything.
func Administrator() User {
	return User{userAdministrator, []string{groupAdministrator, groupAuthenticated}}
}

// Anonymous has not said who it is.
func Anonymous() User { return User{userAnonymous, []string{groupAnonymous}} }

// String is the form in which errors show a user.
func (u User) String() string { return u.Name + "/" + strings.Join(u.Groups, ",") }

func (u User) administrates() bool {
	return u.Name == userAdministrator || slices.Contains(u.Groups, groupAdministrator)
}

type userKey struct{}

// userOf returns the caller; one that nobody has identified is anonymous.
func userOf(ctx context.Context) User {
	if u, ok := ctx.Value(userKey{}).(User); ok {
		return u
	}
	return Anonymous()
}

// authenticate finds out who calls before anything else is looked at.
func (a *API) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, err := a.Identify(r)
		if err != nil {
			if len(split(r.URL.Path)) > 0 {
				fail(w, r, opAuthenticate, err)
				return
			}
			u = Anonymous() // GET / says what this is to everybody
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, u)))
	})
}

// administrator returns a Forbidden fault unless an administrator calls. what is
// the end of the sentence.
func administrator(ctx context.Context, what string) error {
	if u := userOf(ctx); !u.administrates() {
		return fault.New(fault.Forbidden, "user %q cannot access %s", u, what)
	}
	return nil
}

// guarded runs a handler for administrators only.
func guarded(what string, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := administrator(r.Context(), what); err != nil {
			fail(w, r, operation{}, err)
			return
		}
		h(w, r)
	}
}
