package meshapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/e2e/golden"
)

// callers are those of the matrix, in the order of its columns. The names of roles say of which
// mesh they are: m exists and is what the paths name, o is another one.
var callers = []string{"forged", "anonymous", "bob", "viewer-m", "editor-m", "admin-m", "admin-o", "viewer-all", "editor-all", "admin-all", ""}

// roles are what the callers have.
var roles = []access.Role{
	{Role: "viewer", Meshes: []string{"m"}, Users: []string{"viewer-m"}},
	{Role: "editor", Meshes: []string{"m"}, Users: []string{"editor-m"}},
	{Role: "admin", Meshes: []string{"m"}, Users: []string{"admin-m"}},
	{Role: "admin", Meshes: []string{"o"}, Users: []string{"admin-o"}},
	{Role: "viewer", All: true, Users: []string{"viewer-all"}},
	{Role: "editor", All: true, Users: []string{"editor-all"}},
	{Role: "admin", All: true, Users: []string{"admin-all"}},
}

// allowed is what the matrix must come to: the status 401 or 403, or 0 where the caller gets
// through. It is written from the documentation and does not ask the rules.
func allowed(ruled bool, right access.Right, where access.Scope, caller string) int {
	switch {
	case right == access.Open, caller == "":
		return 0
	case caller == "forged":
		return http.StatusUnauthorized
	}
	basic := slices.Contains([]access.Right{access.Known, access.Read, access.Write, access.Own}, right)
	if !ruled {
		if basic {
			return 0
		}
		return http.StatusForbidden
	}
	if caller == "anonymous" {
		return http.StatusUnauthorized
	}
	if right == access.Known {
		return 0
	}
	role, of, _ := strings.Cut(caller, "-")
	able := map[access.Right][]string{access.Read: {"viewer", "editor", "admin"}, access.Write: {"editor", "admin"}}[right]
	if able == nil {
		able = []string{"admin"}
	}
	if slices.Contains(able, role) && (of == "all" || of == where.Mesh || where.Somewhere) {
		return 0
	}
	return http.StatusForbidden
}

// TestAccess calls every endpoint as every kind of caller, without roles and with them. Every
// new endpoint appears here: an undeclared authorisation is refused, and one that is declared
// but not enforced fails.
func TestAccess(t *testing.T) {
	lines := []string{"# endpoint, what it needs, answers to: " + strings.Join(callers[:len(callers)-1], ", ") + ", administrator; without roles / with roles"}
	for _, e := range (&API{newAPI(t).options}).Endpoints() {
		path := strings.NewReplacer("{mesh}", "m", "{name}", existing(e.Pattern), "{revision}", "1", "{node}", "default.web", "{operation}", "reboot", "{kind}", "dataplane-tokens").Replace(e.Pattern)
		var answers []string
		for _, ruled := range []bool{false, true} {
			line := ""
			for _, caller := range callers {
				a := seeded(t)
				if ruled {
					a.options.Rules = access.New(access.Options{Roles: roles})
				}
				rec := request(Handler(a.options), e.Method, path, validBody(path), "Content-Type", mediaJSON, "X-User", caller)
				line += " " + strconv.Itoa(rec.Code)
				got := 0
				if rec.Code == http.StatusUnauthorized || rec.Code == http.StatusForbidden {
					got = rec.Code
				}
				want := allowed(ruled, e.Auth, actsIn(e), caller)
				if want == 0 && caller == "admin-o" && (path == "/tokens" || strings.HasPrefix(path, "/tokens/dataplane")) {
					want = http.StatusForbidden // the body names mesh m
				}
				if got != want {
					t.Errorf("%s %s needs %s; with roles %t it answers %q with %d", e.Method, e.Pattern, e.Auth, ruled, caller, rec.Code)
				}
			}
			answers = append(answers, line)
		}
		lines = append(lines, e.Method+" "+e.Pattern+" "+string(e.Auth)+":"+strings.Join(answers, " /"))
	}
	golden.Compare(t, "testdata/access.golden", []byte(strings.Join(lines, "\n")+"\n"))
}

// wholly begins the patterns of what belongs to no mesh, and of what counts all meshes together.
var wholly = []string{"/censuses", "/zone", "/global-insight", "/status/"}

// actsIn returns where an endpoint must act, by its pattern: below a mesh in that mesh, about a
// mesh in it, about meshes and dataplanes of all meshes where the caller may, else everywhere.
func actsIn(e httpkit.Endpoint) access.Scope {
	switch {
	case strings.HasPrefix(e.Pattern, "/meshes/{mesh}/"), e.Pattern == "/meshes/{name}", e.Pattern == "/mesh-insights/{name}":
		return access.Scope{Mesh: "m"}
	case e.Auth == access.Read && !slices.ContainsFunc(wholly, func(p string) bool { return strings.HasPrefix(e.Pattern, p) }), e.Pattern == "/tokens", strings.HasPrefix(e.Pattern, "/tokens/dataplane"):
		return access.Scope{Somewhere: true}
	}
	return access.Scope{}
}

// TestListsShowWhatMayBeSeen: lists of all meshes show those of the caller.
func TestListsShowWhatMayBeSeen(t *testing.T) {
	a := seeded(t)
	a.options.Rules = access.New(access.Options{Roles: roles})
	a.put(t, "/meshes/o", `{"type":"Mesh","name":"o"}`)
	a.put(t, "/meshes/o/dataplanes/there", dataplane("o", "there", "web"))
	a.put(t, "/meshes/o/dataplanes/pay", dataplane("o", "pay", "pay-of-o"))
	a.put(t, "/meshes/m/dataplanes/web-1", dataplane("m", "web-1", "web"))
	a.put(t, "/meshes/m/dataplanes/shop", dataplane("m", "shop", "shop-of-m"))
	h := Handler(a.options)
	for caller, want := range map[string][2]bool{"viewer-m": {true, false}, "admin-o": {false, true}, "viewer-all": {true, true}, "": {true, true}} {
		for path, names := range map[string][2]string{
			"/meshes": {`"name": "m"`, `"name": "o"`}, "/dataplanes": {`"web-1"`, `"there"`}, "/dataplanes/_overview": {`"web-1"`, `"there"`},
			"/dataplanes?tag=mesh.io/service:web": {`"web-1"`, `"there"`},
			"/mesh-insights":                      {`"name": "m"`, `"name": "o"`}, "/service-insights": {`"shop-of-m"`, `"pay-of-o"`},
		} {
			rec := request(h, "GET", path, "", "X-User", caller)
			for i, name := range names {
				if rec.Code != http.StatusOK || strings.Contains(rec.Body.String(), name) != want[i] {
					t.Errorf("%q at %s: %d, shows %s: %t", caller, path, rec.Code, name, !want[i])
				}
			}
		}
	}
	for path, want := range map[string]int{"/meshes/o": 403, "/meshes/o/dataplanes": 403, "/meshes/o/dataplanes/there": 403, "/meshes/none": 403, "/meshes/m": 200} {
		if rec := request(h, "GET", path, "", "X-User", "viewer-m"); rec.Code != want {
			t.Errorf("%s: %d, want %d", path, rec.Code, want)
		}
	}
}

// TestIdentityNeeded: callers without an identity have nothing but the description, and learn
// what is missing.
func TestIdentityNeeded(t *testing.T) {
	a := seeded(t)
	a.options.Rules = access.New(access.Options{Identified: true})
	h := Handler(a.options)
	rec := request(h, "GET", "/meshes", "", "X-User", "anonymous")
	if rec.Code != http.StatusUnauthorized || rec.Header().Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("%d %v", rec.Code, rec.Header())
	}
	for path, user := range map[string]string{"/": "anonymous", "/meshes": "bob"} {
		if rec := request(h, "GET", path, "", "X-User", user); rec.Code != http.StatusOK {
			t.Errorf("%s as %s: %d", path, user, rec.Code)
		}
	}
}

// TestTokensOfUsersAndZones: requests, refusals and their texts.
func TestTokensOfUsersAndZones(t *testing.T) {
	a := seeded(t)
	a.options.Rules = access.New(access.Options{Static: access.Static{
		access.UserTokens: {Groups: []string{"issuers"}}, access.AdminResources: {Groups: []string{"keepers"}}, access.ZoneTokens: {Users: []string{"zoe"}}, access.DataplaneTokens: {Groups: []string{"issuers"}},
	}})
	h := Handler(a.options)
	for _, test := range []struct {
		path, body, user string
		status           int
		want             string
	}{
		{"/tokens/user", `{"name":"bob","groups":["a"],"validFor":"1h"}`, "", 200, `{"name":"bob","groups":["a"],"validFor":"1h"}`},
		{"/tokens/zone", `{"zone":"a","scope":["egress"]}`, "", 200, `{"zone":"a","scope":["egress"],"validFor":""}`},
		{"/tokens/zone-ingress", `{"zone":"a"}`, "", 200, `{"zone":"a","validFor":""}`},
		{"/tokens/zone", `{"zone":"a","scope":[]}`, "bob", 403, "user \\\"bob/mesh-system:authenticated\\\" cannot access generate zone token for zone 'a'"},
		{"/tokens/zone-ingress", `{"zone":"b"}`, "anonymous", 403, "cannot access generate zone token for zone 'b'"},
		{"/tokens/user", `{"name":"bob","validFor":"1h"}`, "bob", 403, `"detail": "action not allowed"`},
		{"/tokens/dataplane", `{"mesh":"m"}`, "bob", 403, "cannot access generate dataplane token"},
		{"/tokens", `{"mesh":"m"}`, "bob", 403, "cannot access generate dataplane token"},
		{"/tokens", `{"mesh":"m"}`, "ina:issuers", 200, "m"},
		{"/tokens/zone", `{"zone":"a","scope":[]}`, "zoe", 200, "a"},
		{"/tokens/user", `{"name":"bob","validFor":"1h"}`, "ina:issuers", 200, "bob"},
		{"/tokens/dataplane", `{"mesh":"m"}`, "ina:issuers", 200, "m"},
		{"/tokens/user", `{"name":"mesh-system:admin","validFor":"1h"}`, "ina:issuers", 403, "action not allowed"},
		{"/tokens/user", `{"name":"x","groups":["mesh-system:admin"],"validFor":"1h"}`, "ina:issuers", 403, "action not allowed"},
		{"/tokens/user", `{"name":"x","groups":["keepers"],"validFor":"1h"}`, "ina:issuers", 403, "action not allowed"}, // who may read signing keys
		{"/tokens/user", `{"name":"x","groups":["mesh-system:admin"],"validFor":"1h"}`, "", 200, "x"},
		{"/tokens/user", `{"name":"x","validFr":"1h"}`, "", 400, "validFr"},
		{"/tokens/zone", `nothing`, "", 400, ""},
		{"/tokens/user/revocations", `{"ids":["a"]}`, "ina:issuers", 200, `"added": 1`},
		{"/tokens/zone/revocations", `{"ids":["a"]}`, "ina:issuers", 403, "cannot access revoke tokens"},
		{"/tokens/zone/revocations", `{"mesh":"m","ids":["a"]}`, "zoe", 400, "does not belong to tokens of zones"},
	} {
		rec := request(h, "POST", test.path, test.body, "Content-Type", mediaJSON, "X-User", test.user)
		if rec.Code != test.status || !strings.Contains(rec.Body.String(), test.want) || test.want == "" && rec.Body.Len() > 0 {
			t.Errorf("%s as %q: %d %s, want %d %s", test.path, test.user, rec.Code, rec.Body, test.status, test.want)
		}
	}
	a.options.NoIssuing = true
	for _, path := range []string{"/tokens", "/tokens/dataplane", "/tokens/zone", "/tokens/zone-ingress", "/tokens/user"} {
		rec := request(Handler(a.options), "POST", path, `{}`, "Content-Type", mediaJSON)
		if rec.Code != 400 || !strings.Contains(rec.Body.String(), "issuing tokens using the control plane is disabled.") {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
}

// existing returns the name of a resource in seeded APIs for the collection in a pattern.
func existing(pattern string) string {
	before, _, _ := strings.Cut(pattern, "/{name}")
	collection := before[strings.LastIndex(before, "/")+1:]
	known := map[string]string{"meshes": "m", "dataplanes": "web-1", "dataplanes+insights": "web-1", "tickets": "t", "passes": "p", "secrets": "s", "mesh-insights": "m"}
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
	case "/tokens/user/revocations", "/tokens/zone/revocations", "/tokens/zone-ingress/revocations":
		return `{"ids":["7c9e"]}`
	case "/tokens/gateway":
		return `{"name":"gw"}`
	case "/tokens", "/tokens/dataplane":
		return `{"mesh":"m"}`
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
	}}, nil, forbid)
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
			newRouter(list, nil, forbid)
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
	rt := newRouter(list, nil, forbid)
	for path, want := range map[string]string{
		"/a/b": "/a/b::", "/a/z": "/a/{x}:z:", "/a/b/c": "/a/{x}/c:b:", "/a/b/1/d": "/a/b/{y}/d::1", "/a/b/c/d/": "/a/b/{y}/d::c", "/a": textNotFound, "/a/%2e%2e": "/a/{x}:..:",
	} {
		if got := request(rt, "GET", path, "").Body.String(); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
