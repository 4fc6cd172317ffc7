package cloudapi

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/audit/delivery"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/cloud/cloudtest"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/portal"
	"github.com/meshgate/meshgate/controlplane/store"
)

// accounts hash passwords quickly.
func accounts(s store.Store, gate *admit.Gate, now func() time.Time) *portal.Accounts {
	return portal.New(portal.Options{
		Store: s, Writer: gate.As(model.System("portal")), Log: slog.New(slog.DiscardHandler), Now: now, Organization: "org", Hasher: portal.NewHasher(portal.Cost{KiB: 64, Passes: 1, Threads: 1}),
	})
}

func signer(t *testing.T) *audit.Signer {
	t.Helper()
	keys := []ed25519.PrivateKey{ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}
	return audit.NewSigner(func() []ed25519.PrivateKey { return keys })
}

const portalsPath = "/v2/portals"

// must sends a request that has to be answered with a status.
func (f *fixture) must(status int, method, target, body string) map[string]any {
	f.t.Helper()
	got, doc := f.do(method, target, body)
	if got != status {
		f.t.Fatalf("%s %s %s: %d %v, want %d", method, target, body, got, doc, status)
	}
	return doc
}

// portal makes a portal and returns its path.
func (f *fixture) portal(name string) string {
	f.t.Helper()
	return portalsPath + "/" + f.must(201, "POST", portalsPath, fmt.Sprintf(`{"name":%q}`, name))["id"].(string)
}

const password = "correct horse"

// developer makes a developer who can log in, and returns its path.
func (f *fixture) developer(at, email string) string {
	f.t.Helper()
	doc := f.must(201, "POST", at+"/developers", fmt.Sprintf(`{"email":%q,"full_name":"Ada","password":%q}`, email, password))
	return at + "/developers/" + doc["id"].(string)
}

// told is the short form of an answer: status, title, detail, and the first invalid parameter.
func told(status int, doc map[string]any) string {
	got := fmt.Sprintf("%d %v/%v", status, doc["title"], doc["detail"])
	if list, _ := doc["invalid_parameters"].([]any); len(list) > 0 {
		p := list[0].(map[string]any)
		got += fmt.Sprintf("/%v/%v/%v", p["field"], p["reason"], p["rule"])
	}
	return got
}

// TestPortals: what is written is read back, with what the server adds.
func TestPortals(t *testing.T) {
	f := setup(t)
	doc := f.must(201, "POST", portalsPath, `{"name":"docs","labels":{"team":"a"},"description":null}`)
	id := doc["id"].(string)
	domain, _ := doc["default_domain"].(string)
	if slug, ok := strings.CutSuffix(domain, ".portals.example"); !ok || len(slug) != 12 {
		t.Errorf("the host is %q", domain)
	}
	want := map[string]any{
		"id": id, "name": "docs", "display_name": nil, "description": nil, "is_public": false, "rbac_enabled": false, "auto_approve_developers": false,
		"auto_approve_applications": false, "custom_domain": nil, "custom_client_domain": nil, "labels": map[string]any{"team": "a"}, "default_domain": domain,
		"application_count": 0.0, "published_product_count": 0.0, "developer_count": 0.0, "created_at": "2023-11-14T22:13:20.123Z", "updated_at": "2023-11-14T22:13:20.123Z",
	}
	same := func(doc map[string]any) {
		t.Helper()
		if a, b := fmt.Sprint(doc), fmt.Sprint(want); a != b {
			t.Errorf("the document is\n%s\nwant\n%s", a, b)
		}
	}
	same(doc)
	f.developer(portalsPath+"/"+id, "ada@example.com")
	want["developer_count"] = 1.0
	same(f.must(200, "GET", portalsPath+"/"+id, ""))
	want["display_name"], want["custom_domain"] = "Docs", "docs.example.com"
	same(f.must(200, "PATCH", portalsPath+"/"+id, `{"display_name":"Docs","custom_domain":"docs.example.com"}`))
	list := f.must(200, "GET", portalsPath, "")
	if a, b := fmt.Sprint(list), fmt.Sprint(map[string]any{"data": []any{want}, "meta": map[string]any{"page": map[string]any{"number": 1, "size": 10, "total": 1}}}); a != b {
		t.Errorf("the list is\n%s\nwant\n%s", a, b)
	}
}

// TestEmptyDescription: an empty description of a portal or of a control plane is none, as null is. Tools send one
// where nothing is said.
func TestEmptyDescription(t *testing.T) {
	f := setupPlanes(t)
	for path, none := range map[string]any{portalsPath: nil, controlPlanes: ""} {
		for _, empty := range []string{`""`, `null`} {
			doc := f.must(201, "POST", path, `{"name":"of `+strconv.Itoa(len(empty))+`","description":`+empty+`}`)
			item := path + "/" + doc["id"].(string)
			if doc["description"] != none {
				t.Errorf("%s: created with the description %v", path, doc["description"])
			}
			if doc = f.must(200, "PATCH", item, `{"description":"words"}`); doc["description"] != "words" {
				t.Errorf("%s: described as %v", path, doc["description"])
			}
			if doc = f.must(200, "PATCH", item, `{"description":`+empty+`}`); doc["description"] != none {
				t.Errorf("%s: the description is not emptied by %s: %v", path, empty, doc["description"])
			}
		}
	}
	for _, s := range []*model.Schema{cloud.Portals.Schema, cloud.ControlPlanes.Schema} {
		if least := kinds.Given(s).Properties["description"].MinLength; least == nil || *least != 0 {
			t.Errorf("the least length of a description is described as %v", least)
		}
	}
}

// TestPortalRefusals: each mistake is named.
func TestPortalRefusals(t *testing.T) {
	f := setup(t)
	taken := f.portal("taken")
	f.must(200, "PATCH", taken, `{"custom_domain":"taken.example.com"}`)
	full := f.portal("full")
	dev := f.developer(full, "ada@example.com")
	public := portalsPath + "/" + f.must(201, "POST", portalsPath, `{"name":"public","is_public":true}`)["id"].(string)
	const nobody = "/10000000-0000-4000-8000-000000000000"
	for _, test := range []struct{ method, path, body, want string }{
		{"POST", portalsPath, `{}`, `400 Invalid Request/Invalid Parameters/name/"name" is required/required`},
		{"POST", portalsPath, `{"name":""}`, `400 Invalid Request/Invalid Parameters/name/length must be at least 1/min_length`},
		{"POST", portalsPath, `{"name":"` + strings.Repeat("ü", 256) + `"}`, `400 Invalid Request/Invalid Parameters/name/must be at most 255 characters/max_length`},
		{"POST", portalsPath, `{"name":"a","description":"` + strings.Repeat("d", 513) + `"}`, `400 Invalid Request/Invalid Parameters/description/must be at most 512 characters/max_length`},
		{"POST", portalsPath, `{"name":"a","is_public":"yes"}`, `400 Invalid Request/Invalid Parameters/is_public/expected a boolean/is_boolean`},
		{"POST", portalsPath, `{"name":"a","colour":1}`, `400 Invalid Request/Invalid Parameters/colour/property colour should not exist/unknown_property`},
		{"POST", portalsPath, `{"name":"a","slug":"x"}`, `400 Invalid Request/Invalid Parameters/slug/property slug should not exist/unknown_property`},
		{"POST", portalsPath, `{"name":"a","default_domain":"x.example"}`, `400 Invalid Request/Invalid Parameters/default_domain/property default_domain should not exist/unknown_property`},
		{"POST", portalsPath, `{"name":"a","custom_domain":"Docs.example"}`, `400 Invalid Request/Invalid Parameters/custom_domain/must be a host name in lower case, such as developers.example.com/invalid`},
		{"POST", portalsPath, `{"name":"a","custom_domain":"127.0.0.1"}`, `400 Invalid Request/Invalid Parameters/custom_domain/must be a host name in lower case, such as developers.example.com/invalid`},
		{"POST", portalsPath, `{"name":"a","custom_domain":"127.0.0.0x1"}`, `400 Invalid Request/Invalid Parameters/custom_domain/must be a host name in lower case, such as developers.example.com/invalid`},
		{"POST", portalsPath, `{"name":"a","custom_domain":"localhost"}`, `400 Invalid Request/Invalid Parameters/custom_domain/must be a host name in lower case, such as developers.example.com/invalid`},
		{"POST", portalsPath, `{"name":"a","custom_domain":"[::1]"}`, `400 Invalid Request/Invalid Parameters/custom_domain/must be a host name in lower case, such as developers.example.com/invalid`},
		{"POST", portalsPath, `{"name":"a","custom_domain":"x.portals.example"}`, `400 Invalid Request/Invalid Parameters/custom_domain/must not be in portals.example/invalid`},
		{"POST", portalsPath, `{"name":"taken"}`, "409 Conflict/Portal with provided name already exists."},
		{"POST", portalsPath, `{"name":"b","custom_domain":"taken.example.com"}`, "409 Conflict/Portal with provided custom_domain already exists."},
		{"PATCH", full, `{"name":"taken"}`, "409 Conflict/Portal with provided name already exists."},
		{"PATCH", full, `{"is_public":true}`, "409 Conflict/The portal has developers, and a public one cannot have any"},
		{"PATCH", portalsPath + nobody, `{"name":1}`, "404 Not Found/Not Found"},
		{"DELETE", portalsPath + nobody, ``, "404 Not Found/Not Found"},
		{"DELETE", full, ``, "400 Invalid Request/Invalid Parameters/force/must be true: the portal has 1 developers/required"},
		{"DELETE", full + "?force=yes", ``, "400 Invalid Request/Invalid Parameters/force/must be true or false/is_boolean"},
		{"DELETE", full + "?forse=true", ``, "400 Invalid Request/Invalid Parameters/forse/property forse should not exist/unknown_property"},
		{"GET", portalsPath + "?sort=colour", ``, "400 Invalid Request/Invalid Parameters/sort/expected one of: name, display_name, description, is_public, created_at, updated_at/enum"},
		{"GET", portalsPath + "?page[size]=x", ``, "400 Invalid Request/Invalid Parameters/page[size]/must be a number/is_number"},
		{"PATCH", full + "/authentication-settings", `{"oidc_auth_enabled":true}`, "400 Invalid Request/Invalid Parameters/oidc_auth_enabled/is not offered/invalid"},
		{"POST", full + "/developers", `{"full_name":"A"}`, `400 Invalid Request/Invalid Parameters/email/"email" is required/required`},
		{"POST", full + "/developers", `{"full_name":"A","email":"nobody"}`, `400 Invalid Request/Invalid Parameters/email/must be a valid email/invalid`},
		{"POST", full + "/developers", `{"full_name":"A","email":"ADA@Example.com"}`, `409 Conflict/Developer with the given email already exists`},
		{"POST", full + "/developers", `{"full_name":"A","email":"b@example.com","password":"short"}`, `400 Invalid Request/Invalid Parameters/password/length must be at least 8/invalid`},
		{"POST", full + "/developers", `{"full_name":"A","email":"b@example.com","status":"king"}`, `400 Invalid Request/Invalid Parameters/status/expected one of: approved, pending, revoked, rejected/enum`},
		{"POST", full + "/developers", `{"full_name":"A","email":"b@example.com","send_invitation_email":true}`, `400 Invalid Request/Invalid Parameters/send_invitation_email/no mail is sent: make a verification token and hand it over/invalid`},
		{"POST", full + "/developers", `{"full_name":"A","email":"b@example.com","portal":{"id":"` + nobody[1:] + `"}}`, `400 Invalid Request/Invalid Parameters/portal/property portal should not exist/unknown_property`},
		{"POST", public + "/developers", `{"full_name":"A","email":"b@example.com"}`, `409 Conflict/A public portal has no developers`},
		{"POST", portalsPath + nobody + "/developers", `{}`, "404 Not Found/Not Found"},
		{"GET", portalsPath + nobody + "/developers", ``, "404 Not Found/Not Found"},
		{"PATCH", dev, `{"status":"king"}`, `400 Invalid Request/Invalid Parameters/status/expected one of: approved, pending, revoked, rejected/enum`},
		{"PATCH", dev, `{"email":"x@example.com"}`, `400 Invalid Request/Invalid Parameters/email/property email should not exist/unknown_property`},
		{"PATCH", strings.Replace(dev, full, taken, 1), `{"status":"revoked"}`, "404 Not Found/Not Found"},
		{"DELETE", strings.Replace(dev, full, taken, 1), ``, "404 Not Found/Not Found"},
	} {
		if got := told(f.do(test.method, test.path, test.body)); got != test.want {
			t.Errorf("%s %s %s:\n%s\nwant\n%s", test.method, test.path, test.body, got, test.want)
		}
	}
}

// TestPortalLists: lists are selected by members and labels, sorted, and cut into numbered pages.
func TestPortalLists(t *testing.T) {
	f := setup(t)
	for i, name := range []string{"delta", "alpha", "charlie", "bravo"} {
		f.now = epoch.Add(time.Duration(i) * time.Minute)
		f.must(201, "POST", portalsPath, fmt.Sprintf(`{"name":%q,"is_public":%t,"labels":{"n":"%d"}}`, name, i%2 == 0, i%2))
	}
	for query, want := range map[string]string{
		"sort=name":                               "alpha bravo charlie delta 4",
		"sort=created_at%20desc":                  "bravo charlie alpha delta 4",
		"sort=is_public%20desc,name":              "charlie delta alpha bravo 4",
		"sort=name&page[size]=3&page[number]=2":   "delta 4",
		"sort=name&page[size]=3&page[number]=9":   " 4",
		"filter[name][contains]=a&sort=name":      "alpha bravo charlie delta 4",
		"filter[is_public]=true&sort=name":        "charlie delta 2",
		"labels=n:1&sort=name":                    "alpha bravo 2",
		"labels=n&sort=name&filter[name]=alpha":   "alpha 1",
		"labels=m":                                " 0",
		"filter[name][oeq]=alpha,bravo&sort=name": "alpha bravo 2",
	} {
		doc := f.must(200, "GET", portalsPath+"?"+query, "")
		var names []string
		for _, d := range doc["data"].([]any) {
			names = append(names, d.(map[string]any)["name"].(string))
		}
		total := doc["meta"].(map[string]any)["page"].(map[string]any)["total"]
		if got := fmt.Sprintf("%s %v", strings.Join(names, " "), total); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

// TestNoDomain: without a domain for portals they are reached by their path.
func TestNoDomain(t *testing.T) {
	f := setup(t)
	f.api.PortalDomain = ""
	at := f.portal("docs")
	f.developer(at, "ada@example.com")
	if doc := f.must(200, "GET", at, ""); doc["default_domain"] != "" {
		t.Errorf("%v", doc)
	}
	if got := f.login(at, "ada@example.com", password); got.Code != 204 {
		t.Error(got.told())
	}
}

// TestRegional: a process that serves no region has no portals, and shows the keys all the same.
func TestRegional(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.api.Regional = false
	f.handler = httpkit.Observe(f.api.Handler(), slog.New(slog.DiscardHandler))
	for path, want := range map[string]int{portalsPath: 404, at: 404, at + hookPath: 404, strings.TrimPrefix(at, "/v2") + siteBase + "/me": 404, "/v2/audit-log-webhook/jwks.json": 200, destinations: 200} {
		if status, doc := f.do("GET", path, ""); status != want {
			t.Errorf("%s: %d %v", path, status, doc)
		}
	}
}

// TestPortalIsGone: with a portal goes all that it has.
func TestPortalIsGone(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	dev := f.developer(at, "ada@example.com")
	f.hook(at)
	if got := f.login(at, "ada@example.com", password); got.Code != 204 {
		t.Error(got.told())
	}
	if got := f.login(at, "ada@example.com", "wrong password").told(); got != toldInvalid {
		t.Error(got)
	}
	f.must(202, "PUT", at+"/audit-log-replay-job", `{"start_at":"2023-11-14T00:00:00Z","end_at":"2023-11-14T23:00:00+01:00"}`)
	f.must(201, "POST", dev+"/verification-token", "")
	for _, k := range []*model.Kind{
		cloud.Portals, cloud.Developers, cloud.Passwords, cloud.Trials, cloud.Sessions, cloud.Invitations, cloud.Replays,
		cloud.Webhooks, cloud.Deliveries, cloud.Positions, cloud.Events,
	} {
		if len(f.rows(k, at)) == 0 {
			t.Errorf("the portal has no %s that could stay", k.Name)
		}
	}
	f.must(204, "DELETE", at+"?force=true", "")
	for _, k := range cloud.Kinds() {
		if list := f.rows(k, at); k != cloud.Destinations && len(list) != 0 {
			t.Errorf("%d of %s are left", len(list), k.Name)
		}
	}
}

// TestManyEventsOfAPortal: more events than fit into one transaction go with their portal, and those of
// others stay.
func TestManyEventsOfAPortal(t *testing.T) {
	f := setup(t)
	at, other := f.portal("docs"), f.portal("other")
	for _, path := range []string{at, other} {
		f.hook(path)
		_, err := f.api.Gate.As(model.System("test")).Write(t.Context(), model.Config, func(tx store.Tx) error {
			for range purged + 7 {
				if err := delivery.Put(tx, audit.Event{Time: f.now, Portal: strings.TrimPrefix(path, portalsPath+"/")}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	f.must(204, "DELETE", at, "")
	if n := len(f.events(other)); n != purged+7 {
		t.Errorf("%d events of the other portal are left", n)
	}
	if n := len(f.events(at)); n != 0 {
		t.Errorf("%d events of the portal are left", n)
	}
}

// hook leads the events of a portal to a new destination.
func (f *fixture) hook(at string) {
	f.t.Helper()
	f.must(200, "PATCH", at+"/audit-log-webhook", fmt.Sprintf(`{"enabled":true,"audit_log_destination_id":%q}`, f.created("for "+at)))
}

// events are those that are kept of a portal.
func (f *fixture) events(at string) []audit.Event {
	f.t.Helper()
	return cloudtest.Events(f.t, f.api.Store, strings.TrimPrefix(at, portalsPath+"/"))
}

// rows are the resources of a kind that are of no scope, and those in the scope of a portal, as its events are.
func (f *fixture) rows(k *model.Kind, at string) (list []*model.Resource) {
	f.t.Helper()
	err := f.api.Store.View(f.t.Context(), func(r store.Reader) error {
		for _, scope := range []string{"", strings.TrimPrefix(at, portalsPath+"/")} {
			rows, err := r.List(k, store.Query{Scope: scope})
			if err != nil {
				return err
			}
			list = append(list, rows...)
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return list
}

// answer is an answer of the API of a portal.
type answer struct {
	*httptest.ResponseRecorder
	cookies map[string]*http.Cookie
}

// told is its short form.
func (a answer) told() string {
	doc := map[string]any{}
	_ = json.Unmarshal(a.Body.Bytes(), &doc)
	return told(a.Code, doc)
}

// site sends a request to the API of a portal, by its path.
func (f *fixture) site(method, at, path, body string, edit func(*http.Request)) answer {
	f.t.Helper()
	r := httptest.NewRequest(method, strings.TrimPrefix(at, "/v2")+siteBase+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "Firefox")
	if edit != nil {
		edit(r)
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	cookies := map[string]*http.Cookie{}
	for _, c := range w.Result().Cookies() {
		cookies[c.Name] = c
	}
	return answer{w, cookies}
}

func (f *fixture) login(at, email, password string) answer {
	f.t.Helper()
	return f.site("POST", at, "/authenticate", fmt.Sprintf(`{"username":%q,"password":%q}`, email, password), nil)
}

// with sends the cookies of an answer along.
func (a answer) with(names ...string) func(*http.Request) {
	return func(r *http.Request) {
		for name, c := range a.cookies {
			if len(names) == 0 || slices.Contains(names, name) {
				r.AddCookie(&http.Cookie{Name: name, Value: c.Value})
			}
		}
	}
}
