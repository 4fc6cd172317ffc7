package httpkit

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
)

// TestDeclaredAuthorisation: the declaration of an endpoint decides who reaches its handler.
func TestDeclaredAuthorisation(t *testing.T) {
	for name, tc := range map[string]struct {
		auth   Authorisation
		who    *model.Actor
		status int
	}{
		"open, nobody":              {Open, nil, 204},
		"open, user":                {Open, new(model.User("bob")), 204},
		"administrator, nobody":     {Administrator, nil, 401},
		"administrator, anonymous":  {Administrator, new(model.Anonymous()), 401},
		"administrator, user":       {Administrator, new(model.User("bob", "staff")), 403},
		"administrator, node":       {Administrator, &model.Actor{Kind: model.ActorNode, Name: model.UserAdministrator, Groups: []string{model.GroupAdministrator}}, 403},
		"administrator, in group":   {Administrator, new(model.User("amy", model.GroupAdministrator)), 204},
		"administrator, by name":    {Administrator, new(model.Administrator()), 204},
		"administrator, token":      {Administrator, &model.Actor{Kind: model.ActorToken, Name: "t", Groups: []string{model.GroupAdministrator}}, 204},
		"administrator, mere token": {Administrator, &model.Actor{Kind: model.ActorToken, Name: model.UserAdministrator}, 403},
	} {
		t.Run(name, func(t *testing.T) {
			rt := NewRouter([]Endpoint{{
				Method: "GET", Pattern: "/a", Auth: tc.auth,
				Handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
			}}, RefuseMessage)
			for _, method := range []string{"GET", "HEAD", "OPTIONS"} {
				r := httptest.NewRequest(method, "/a", nil)
				if tc.who != nil {
					r = As(r, *tc.who)
				}
				w := httptest.NewRecorder()
				rt.ServeHTTP(w, r)
				if w.Code != tc.status {
					t.Errorf("%s: %d, want %d", method, w.Code, tc.status)
				}
			}
		})
	}
}

// TestEnforceRefusesMistakes: an endpoint that cannot be enforced is refused.
func TestEnforceRefusesMistakes(t *testing.T) {
	h := func(http.ResponseWriter, *http.Request) {}
	for name, e := range map[string]Endpoint{
		"nothing declared": {Method: "GET", Pattern: "/a", Handler: h},
		"unknown":          {Method: "GET", Pattern: "/a", Auth: "root", Handler: h},
		"no handler":       {Method: "GET", Pattern: "/a", Auth: Open},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
			}()
			Enforce(e, nil, RefuseMessage)
		})
	}
}
