package gatewayapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TestToken: if a token is configured, every endpoint, method and path requires it, and the
// name in Host does not matter any more.
func TestToken(t *testing.T) {
	const token = "a-token-for-this-test"
	f := setupWith(t, func(o *gatewayapi.Options) {
		o.Token, o.Guard, o.Revocations = token, &httpkit.BrowserGuard{AnyHost: true, Proxied: true}, &revocations{}
	})
	ask := func(method, path, authorization string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		r.Host = "gateway.internal:8001"
		r.Header.Set("X-Forwarded-For", "192.0.2.1")
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		return f.serve(r)
	}
	paths := map[string]string{"GET /nowhere": "/nowhere", "OPTIONS /consumers": "/consumers", "HEAD /": "/"}
	for _, e := range f.api.Endpoints() {
		paths[e.Method+" "+e.Pattern] = strings.NewReplacer("{", "", "}", "").Replace(e.Pattern)
	}
	for name, path := range paths {
		method, _, _ := strings.Cut(name, " ")
		for _, wrong := range []string{"", "Bearer " + token + "x", "Basic " + token} {
			w := ask(method, path, wrong)
			if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "" || !strings.HasPrefix(w.Body.String(), `{"message":`) {
				t.Errorf("%s with %q: %d %s", name, wrong, w.Code, w.Body)
			}
		}
	}
	if w := ask("GET", "/consumers", "Bearer "+token); w.Code != http.StatusOK {
		t.Errorf("with the token: %d %s", w.Code, w.Body)
	}
}

// TestRouterEnforces calls every route with a handler that checks nothing, without a token,
// with a wrong one and with the right one. Only the declaration of the route decides.
func TestRouterEnforces(t *testing.T) {
	f := setupWith(t, func(o *gatewayapi.Options) { o.Revocations = &revocations{} })
	ran := false
	list := f.api.Endpoints()
	for i := range list {
		list[i].Handler = func(http.ResponseWriter, *http.Request) { ran = true }
	}
	rt := httpkit.NewRouter(list, httpkit.RefuseMessage)
	for _, e := range list {
		path := strings.NewReplacer("{", "", "}", "").Replace(e.Pattern)
		for name, tc := range map[string]struct {
			who    model.Actor
			status int
		}{
			"none": {model.Actor{}, 401}, "anonymous": {model.Anonymous(), 401}, "wrong": {model.User("bob"), 403}, "right": {model.Administrator(), 200},
		} {
			ran = false
			w := httptest.NewRecorder()
			rt.ServeHTTP(w, httpkit.As(httptest.NewRequest(e.Method, path, nil), tc.who))
			if w.Code != tc.status || ran != (tc.status == 200) {
				t.Errorf("%s %s, %s: %d, reached: %t", e.Method, e.Pattern, name, w.Code, ran)
			}
		}
	}
}
