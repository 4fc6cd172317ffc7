package gatewayapi_test

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
)

// member returns a member of a document.
func member(t *testing.T, document, name string) string {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(document), &m); err != nil {
		t.Fatalf("%v: %s", err, document)
	}
	text, _ := m[name].(string)
	return text
}

// TestWorkspaces: there is the workspace default, by its name and id, also in itself, and no other.
func TestWorkspaces(t *testing.T) {
	f := setup(t, nil)
	one := f.do("GET", "/workspaces/default", "").Body.String()
	id := member(t, one, "id")
	if member(t, one, "name") != "default" || !model.IsUUID(id) {
		t.Fatal(one)
	}
	for _, path := range []string{"/default/workspaces/default", "/workspaces/" + id, "/default/workspaces/" + id} {
		if w := f.do("GET", path, ""); w.Code != 200 || w.Body.String() != one {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if list := f.do("GET", "/workspaces", "").Body.String(); !strings.Contains(list, strings.TrimSpace(one)) || strings.Count(list, `"name"`) != 1 {
		t.Error(list)
	}
	for _, path := range []string{"/workspaces/ws1", "/ws1/workspaces/ws1", "/default/workspaces/ws1", "/ws1/services", "/ws1"} {
		if w := f.do("GET", path, ""); w.Code != 404 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := f.do("POST", "/workspaces", `{"name":"ws1"}`); w.Code != 405 {
		t.Errorf("a second workspace: %d %s", w.Code, w.Body)
	}
}

// TestPathsOfTheWorkspace: they are those without its name, with all methods and the same answers. Its name
// counts once, and in no other spelling.
func TestPathsOfTheWorkspace(t *testing.T) {
	f := setup(t, nil)
	for _, name := range []string{"a", "b", "c"} {
		if w := f.do("PUT", "/default/services/"+name, `{"host":"h"}`); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	f.do("PUT", "/services/a%2Fb", `{"host":"h"}`)
	for _, path := range []string{"", "/", "/services", "/services/", "/services?size=2", "/services/a", "/services/a%2Fb", "/services/none", "/none", "/schemas/services", "/services//a", "/endpoints"} {
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "PATCH", "PURGE"} {
			plain, alias := f.do(method, "http://h"+cmp.Or(path, "/"), ""), f.do(method, "http://h/default"+path, "")
			for _, other := range []string{httpkit.HeaderRequestID, gatewayapi.HeaderRevision} {
				plain.Header().Del(other)
				alias.Header().Del(other)
			}
			if diff := gocmp.Diff(plain.Header(), alias.Header()); diff != "" || plain.Code != alias.Code || plain.Body.String() != alias.Body.String() {
				t.Errorf("%s %s: %d %s, and below the workspace %d %s\n%s", method, path, plain.Code, plain.Body, alias.Code, alias.Body, diff)
			}
		}
	}
	next := member(t, f.do("GET", "/default/services?size=2", "").Body.String(), "next")
	if w := f.do("GET", "/default"+next, ""); w.Code != 200 || !strings.Contains(w.Body.String(), `"next":null`) {
		t.Errorf("%s: %d %s", next, w.Code, w.Body)
	}
	for _, path := range []string{"/default/default/services", "/%64efault/services", "/Default/services", "/defaults/services", "/default%2Fservices", "//default/services"} {
		if w := f.do("GET", "http://h"+path, ""); w.Code != 404 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := f.do("DELETE", "/default/services/a", ""); w.Code != 204 || f.do("GET", "/services/a", "").Code != 404 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestWorkspaceSeesRealPaths: whoever decides about a request, and the log, see the path of the handler.
func TestWorkspaceSeesRealPaths(t *testing.T) {
	var seen string
	f := setupWith(t, func(o *gatewayapi.Options) {
		o.Rules = access.New(access.Options{Roles: []access.Role{{Role: "viewer", All: true, Users: []string{"ann"}}}})
		o.Identify = func(r *http.Request) (model.Actor, error) {
			seen = r.URL.Path
			return model.User("ann"), nil
		}
	})
	var e *httpkit.Entry
	h := httpkit.Observe(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e = httpkit.EntryOf(r.Context())
		f.api.Handler().ServeHTTP(w, r)
	}), slog.New(slog.DiscardHandler))
	for method, code := range map[string]int{"GET": 404, "PUT": 403} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "/default/services/a", http.NoBody))
		if w.Code != code || seen != "/services/a" || e.Pattern != "/services/{key}" {
			t.Errorf("%s: %d, by %s, logged as %s", method, w.Code, seen, e.Pattern)
		}
	}
}

// TestNothingIsShadowed: an endpoint below the name of the workspace could not be reached.
func TestNothingIsShadowed(t *testing.T) {
	kind := *gateway.Services
	kind.Path = "default"
	api := gatewayapi.New(gatewayapi.Options{Collections: gatewayapi.CollectionsOf([]*model.Kind{&kind}), Log: slog.New(slog.DiscardHandler)})
	defer func() {
		if p, _ := recover().(string); !strings.Contains(p, "/default") {
			t.Errorf("%q", p)
		}
	}()
	api.Handler()
}
