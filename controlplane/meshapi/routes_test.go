package meshapi

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/e2e/golden"
)

// TestAccess calls every endpoint as every kind of caller. Every new endpoint appears here:
// an undeclared authorisation is refused, and one that is declared but not enforced fails.
func TestAccess(t *testing.T) {
	var lines []string
	for _, e := range (&API{newAPI(t).options}).Endpoints() {
		path := strings.NewReplacer("{mesh}", "m", "{name}", existing(e.Pattern), "{revision}", "1", "{node}", "default.web", "{operation}", "reboot", "{kind}", "dataplane-tokens").Replace(e.Pattern)
		line := e.Method + " " + e.Pattern + " " + string(e.Auth)
		for _, user := range []string{"forged", "anonymous", "bob", ""} {
			rec := request(seeded(t).handler, e.Method, path, validBody(path), "Content-Type", mediaJSON, "X-User", user)
			line += " " + strconv.Itoa(rec.Code)
			ordinary := user == "anonymous" || user == "bob"
			if refused := rec.Code == http.StatusForbidden; refused != (ordinary && e.Auth == httpkit.Administrator) {
				t.Errorf("%s %s is for the %s and answers %s with %d", e.Method, e.Pattern, e.Auth, user, rec.Code)
			}
			if (rec.Code == http.StatusUnauthorized) != (user == "forged" && e.Pattern != "/") {
				t.Errorf("%s %s answers %s with %d", e.Method, e.Pattern, user, rec.Code)
			}
		}
		lines = append(lines, line)
	}
	got := "# endpoint, authorisation, answers to: bad token, anonymous, user, administrator\n" + strings.Join(lines, "\n") + "\n"
	golden.Compare(t, "testdata/access.golden", []byte(got))
}

// existing returns the name of a resource in seeded APIs for the collection in a pattern.
func existing(pattern string) string {
	before, _, _ := strings.Cut(pattern, "/{name}")
	collection := before[strings.LastIndex(before, "/")+1:]
	known := map[string]string{"meshes": "m", "dataplanes": "web-1", "dataplanes+insights": "web-1", "tickets": "t", "passes": "p", "secrets": "s"}
	if name, ok := known[collection]; ok {
		return name
	}
	return "g"
}

// validBody returns a document that a PUT to the path accepts.
func validBody(path string) string {
	switch path {
	case "/meshes/m":
		return `{"type":"Mesh","name":"m"}`
	case "/meshes/m/dataplanes/web-1":
		return dataplane("m", "web-1", "web")
	case "/meshes/m/tickets/t":
		return goodTicket("t")
	case "/meshes/m/passes/p":
		return `{"type":"Pass","mesh":"m","name":"p"}`
	case "/meshes/m/secrets/s":
		return `{"type":"Secret","mesh":"m","name":"s"}`
	case "/global-secrets/g":
		return `{"type":"GlobalSecret","name":"g"}`
	case "/keys/dataplane-tokens/rotate":
		return `{"mesh":"m"}`
	case "/tokens/dataplane/revocations":
		return `{"mesh":"m","ids":["7c9e"]}`
	case "/tokens/gateway/revocations":
		return `{"ids":["7c9e"]}`
	case "/tokens/gateway":
		return `{"name":"gw"}`
	}
	return `{}`
}

// TestKinds: all routes of each kind exist, because they follow from the kind.
func TestKinds(t *testing.T) {
	a := newAPI(t)
	routes := map[string]bool{}
	for _, e := range (&API{a.options}).Endpoints() {
		routes[e.Method+" "+e.Pattern] = true
	}
	for _, k := range a.options.Kinds {
		item, lists := "/"+k.Path+"/{name}", []string{"GET /" + k.Path}
		if k.Scoping != 0 {
			item = "/meshes/{mesh}" + item
			lists = append(lists, "GET /meshes/{mesh}/"+k.Path)
		}
		for _, route := range append(lists, "GET "+item, "PUT "+item, "DELETE "+item) {
			if routes[route] != (k.Document != nil) {
				t.Errorf("%s: %s is offered: %t", k.Name, route, routes[route])
			}
		}
	}
}

// TestBareAPI: endpoints whose option is missing are not offered.
func TestBareAPI(t *testing.T) {
	h := Handler(Options{Version: "1.2.3"})
	for path, status := range map[string]int{
		"/": 200, "/policies": 200, "/versions": 200, "/who-am-i": 200,
		"/meshes": 404, "/dataplanes+insights": 404, "/meshes/m/dataplanes/d/xds": 404, "/revisions/1": 404, "/nodes": 404, "/tokens/dataplane": 404, "/keys": 404, "/tokens/gateway": 404, "/tokens/gateway/revocations": 404,
	} {
		if rec := request(h, "GET", path, ""); rec.Code != status {
			t.Errorf("%s: %d, want %d", path, rec.Code, status)
		}
	}
	if rec := request(h, "GET", "/who-am-i", ""); !strings.Contains(rec.Body.String(), model.UserAdministrator) {
		t.Errorf("whoever passes the guard administrates: %s", rec.Body)
	}
}

// TestNobodyIdentified: a caller whom nothing has identified is refused.
func TestNobodyIdentified(t *testing.T) {
	h := newRouter([]httpkit.Endpoint{{
		Method: "GET", Pattern: "/", Auth: httpkit.Administrator,
		Handler: func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") },
	}}, forbid)
	if rec := request(h, "GET", "/", ""); rec.Code != http.StatusForbidden {
		t.Errorf("%d", rec.Code)
	}
}

// TestRouterRefuses: mistakes in the program cause a panic.
func TestRouterRefuses(t *testing.T) {
	h := func(http.ResponseWriter, *http.Request) {}
	good := httpkit.Endpoint{Method: "GET", Pattern: "/a", Auth: httpkit.Open, Handler: h}
	for name, list := range map[string][]httpkit.Endpoint{
		"no authorisation":         {{Method: "GET", Pattern: "/a", Handler: h}},
		"an unknown authorisation": {{Method: "GET", Pattern: "/a", Auth: "root", Handler: h}},
		"no handler":               {{Method: "GET", Pattern: "/a", Auth: httpkit.Open}},
		"another method":           {{Method: "HEAD", Pattern: "/a", Auth: httpkit.Open, Handler: h}},
		"twice":                    {good, good},
		"twice with other names": {
			{Method: "GET", Pattern: "/{a}", Auth: httpkit.Open, Handler: h}, {Method: "GET", Pattern: "/{b}", Auth: httpkit.Open, Handler: h},
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
			}()
			newRouter(list, forbid)
		})
	}
}

// TestRouterPrefersLiterals: a literal has precedence over a variable. If the literal leads
// nowhere, the variable is used.
func TestRouterPrefersLiterals(t *testing.T) {
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(text + ":" + r.PathValue("x") + ":" + r.PathValue("y")))
		}
	}
	var list []httpkit.Endpoint
	for _, pattern := range []string{"/a/{x}", "/a/b", "/a/{x}/c", "/a/b/{y}/d"} {
		list = append(list, httpkit.Endpoint{Method: "GET", Pattern: pattern, Auth: httpkit.Open, Handler: answer(pattern)})
	}
	rt := newRouter(list, forbid)
	for path, want := range map[string]string{
		"/a/b": "/a/b::", "/a/z": "/a/{x}:z:", "/a/b/c": "/a/{x}/c:b:", "/a/b/1/d": "/a/b/{y}/d::1", "/a/b/c/d/": "/a/b/{y}/d::c", "/a": textNotFound, "/a/%2e%2e": "/a/{x}:..:",
	} {
		if got := request(rt, "GET", path, "").Body.String(); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
