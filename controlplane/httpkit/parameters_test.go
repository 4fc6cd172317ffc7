package httpkit

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
)

// TestUnknownParameters: a closed endpoint refuses all parameters that it does not list at
// once, and does nothing. Other endpoints ignore them. A caller that may not call the
// endpoint does not learn about them.
func TestUnknownParameters(t *testing.T) {
	called := false
	open := Endpoint{
		Method: http.MethodDelete, Pattern: "/nodes/{node}", Auth: Administrator,
		Contract: Contract{Query: []Parameter{{Name: "former"}, {Name: "state"}}},
		Handler:  func(w http.ResponseWriter, _ *http.Request) { called = true; w.WriteHeader(http.StatusNoContent) },
	}
	for _, tc := range []struct {
		endpoint Endpoint
		who      model.Actor
		query    string
		status   int
		body     string
	}{
		{open.Closed(), model.User("ann", model.GroupAdministrator), "fromer=true&stat=away&%78=", http.StatusBadRequest,
			`{"message":"the input is not valid: fromer: unknown parameter; did you mean \"former\"?; stat: unknown parameter; did you mean \"state\"?; x: unknown parameter"}`},
		{open.Closed(), model.User("ann", model.GroupAdministrator), "former=true", http.StatusNoContent, ""},
		{open.Closed(), model.User("ann", model.GroupAdministrator), "", http.StatusNoContent, ""},
		{open.Closed(), model.User("ann", model.GroupAdministrator), "%zz", http.StatusBadRequest, `{"message":"the query is malformed"}`},
		{open.Closed(), model.Anonymous(), "fromer=true", http.StatusUnauthorized, ""},
		{open, model.User("ann", model.GroupAdministrator), "fromer=true", http.StatusNoContent, ""},
	} {
		called = false
		r := httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/nodes/a?"+tc.query, http.NoBody)
		w := httptest.NewRecorder()
		NewRouter([]Endpoint{tc.endpoint}, RefuseMessage).ServeHTTP(w, As(r, tc.who))
		if w.Code != tc.status || tc.body != "" && strings.TrimSpace(w.Body.String()) != tc.body || called != (w.Code == http.StatusNoContent) {
			t.Errorf("%s: %d %s, called %t", tc.query, w.Code, w.Body, called)
		}
	}
}
