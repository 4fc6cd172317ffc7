package cloudapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/portal"
)

const (
	toldInvalid = "401 Invalid Credentials/You have entered an invalid email or password."
	toldMany    = "429 Too Many Requests/There have been too many attempts; try again later"
)

// TestLoginOutcomes: whoever does not know the password learns nothing; what happened is in the event.
func TestLoginOutcomes(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.hook(at)
	dev := f.developer(at, "ada@example.com")
	id := dev[strings.LastIndex(dev, "/")+1:]
	f.must(201, "POST", at+"/developers", `{"email":"none@example.com","full_name":"No Password"}`)
	for _, test := range []struct {
		status, email, password, told string
		outcome                       audit.Outcome
		principal                     string
	}{
		{"approved", "ada@example.com", password, "204 <nil>/<nil>", audit.Success, id},
		{"approved", "ADA@example.COM", password, "204 <nil>/<nil>", audit.Success, id},
		{"approved", "ada@example.com", "wrong", toldInvalid, audit.InvalidPassword, id},
		{"approved", "bob@example.com", password, toldInvalid, audit.NotFound, ""},
		{"approved", "nobody", password, toldInvalid, audit.NotFound, ""},
		{"pending", "ada@example.com", password, "401 Approval Required/Your account has not been approved yet.", audit.Disabled, id},
		{"pending", "ada@example.com", "wrong", toldInvalid, audit.Disabled, id},
		{"revoked", "ada@example.com", password, toldInvalid, audit.Disabled, id},
		{"rejected", "ada@example.com", password, toldInvalid, audit.Disabled, id},
		{"approved", "ada@example.com", password, "204 <nil>/<nil>", audit.Success, id},
	} {
		f.must(200, "PATCH", dev, `{"status":"`+test.status+`"}`)
		before := len(f.events(at))
		a := f.login(at, test.email, test.password)
		if got := a.told(); got != test.told {
			t.Errorf("%s %s: %s, want %s", test.status, test.email, got, test.told)
		}
		events := f.events(at)
		if len(events) != before+1 {
			t.Fatalf("%s %s: %d events", test.status, test.email, len(events)-before)
		}
		e := events[before]
		if e.Outcome != test.outcome || e.Principal != test.principal {
			t.Errorf("%s %s: the event says %s of %q", test.status, test.email, e.Outcome, e.Principal)
		}
		want := audit.Event{
			ID: e.ID, Time: f.now.UTC(), Method: audit.Basic, Outcome: e.Outcome, Source: e.Source, Request: strings.TrimPrefix(at, "/v2") + "/api/v2/developer/authenticate",
			UserAgent: "Firefox", Organization: "org", Portal: strings.TrimPrefix(at, portalsPath+"/"), Principal: e.Principal, Trace: e.Trace,
		}
		if e.Time = e.Time.UTC(); fmt.Sprint(e) != fmt.Sprint(want) || e.Trace == "" || e.ID == "" || e.Source.String() != "192.0.2.1" {
			t.Errorf("the event is\n%v\nwant\n%v", e, want)
		}
	}
	if got := f.login(at, "none@example.com", "anything").told(); got != toldInvalid {
		t.Errorf("without a password: %s", got)
	}
}

// TestNoEvents: nothing is kept of a portal that has no webhook, and of a public one.
func TestNoEvents(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.developer(at, "ada@example.com")
	login := func(portal string) {
		t.Helper()
		if got := f.login(portal, "ada@example.com", password); got.Code != 204 {
			t.Error(got.told())
		}
		if got := f.login(portal, "ada@example.com", "wrong").told(); got != toldInvalid {
			t.Error(got)
		}
	}
	login(at)
	public := portalsPath + "/" + f.must(201, "POST", portalsPath, `{"name":"public","is_public":true}`)["id"].(string)
	f.hook(public)
	if got := f.login(public, "ada@example.com", password).told(); got != toldInvalid {
		t.Error(got)
	}
	for _, portal := range []string{at, public} {
		if list := f.events(portal); len(list) != 0 {
			t.Errorf("%s: %v", portal, list)
		}
	}
	f.hook(at)
	f.must(200, "PATCH", public, `{"is_public":false}`)
	f.developer(public, "ada@example.com")
	for _, portal := range []string{at, public} {
		login(portal)
		if list := f.events(portal); len(list) != 2 {
			t.Errorf("%s, once its events are wanted: %v", portal, list)
		}
	}
}

// TestNoPasswords: a portal whose developers do not log in with a password says so.
func TestNoPasswords(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.hook(at)
	f.developer(at, "ada@example.com")
	if doc := f.must(200, "GET", at+"/authentication-settings", ""); doc["basic_auth_enabled"] != true || doc["oidc_auth_enabled"] != false || len(doc) != 5 {
		t.Errorf("%v", doc)
	}
	f.must(200, "PATCH", at+"/authentication-settings", `{"basic_auth_enabled":false}`)
	if got := f.login(at, "ada@example.com", password).told(); got != "403 Forbidden/Developers of this portal do not log in with a password" {
		t.Error(got)
	}
	if list := f.events(at); len(list) != 1 || list[0].Outcome != audit.Invalid {
		t.Errorf("%v", list)
	}
	f.must(200, "PATCH", at, `{"display_name":"kept"}`)
	if doc := f.must(200, "GET", at+"/authentication-settings", ""); doc["basic_auth_enabled"] != false {
		t.Errorf("%v", doc)
	}
}

// TestLoginRefusals: the texts for bodies that are not even an attempt. None of them is an event.
func TestLoginRefusals(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.hook(at)
	for body, want := range map[string]string{
		`{"username":"ada@example.com"}`:               "400 Invalid Request/Required fields are missing/password/is required/required",
		`{"username":"ada@example.com","password":""}`: "400 Invalid Request/Required fields are missing/password/is required/required",
		`{}`:                            "400 Invalid Request/Required fields are missing/password/is required/required",
		`{"password":"p"}`:              "400 Invalid Request/Required fields are missing/username/is required/required",
		`{"username":1,"password":"p"}`: "400 Invalid Request/Invalid Parameters/username/expected a string/is_string",
		`{"username":"a","password":"p","remember":true}`:                "400 Invalid Request/Invalid Parameters/remember/property remember should not exist/unknown_property",
		`{"username":"a","password":"` + strings.Repeat("p", 257) + `"}`: "400 Invalid Request/Invalid Parameters/password/length must be at most 256/max_length",
		`{"username":`: "400 Bad Request/Could not parse request body/body/request format is invalid/<nil>",
		`{"username":"a","password":"p","x":"` + strings.Repeat("x", maxForm) + `"}`: "413 Content Too Large/Request body too large",
	} {
		if got := f.site("POST", at, "/authenticate", body, nil).told(); got != want {
			t.Errorf("%.60s: %s, want %s", body, got, want)
		}
	}
	if list := f.events(at); len(list) != 0 {
		t.Errorf("%v", list)
	}
}

// TestSession: two cookies are a session, until it is left.
func TestSession(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	dev := f.developer(at, "ada@example.com")
	a := f.login(at, "ada@example.com", password)
	for name, age := range map[string]int{cookieAccess: 900, cookieRefresh: 604800} {
		c := a.cookies[name]
		if c == nil || c.Path != "/" || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteNoneMode || c.Domain != "" || c.MaxAge != age {
			t.Errorf("%s: %v", name, c)
		}
	}
	me := f.site("GET", at, "/me", "", a.with())
	doc := map[string]any{}
	if err := json.Unmarshal(me.Body.Bytes(), &doc); err != nil || me.Code != 200 || !strings.HasSuffix(dev, doc["id"].(string)) || doc["email"] != "ada@example.com" || doc["full_name"] != "Ada" {
		t.Errorf("%d %s", me.Code, me.Body)
	}
	if strings.Contains(me.Body.String(), "argon2") || strings.Contains(fmt.Sprint(f.must(200, "GET", dev, "")), "argon2") {
		t.Error("the hash is shown")
	}
	other := f.portal("other")
	refused := map[string]answer{
		"no cookie":            f.site("GET", at, "/me", "", nil),
		"only the refresh one": f.site("GET", at, "/me", "", a.with(cookieRefresh)),
		"another portal":       f.site("GET", other, "/me", "", a.with()),
		"refresh with access": f.site("POST", at, "/refresh", "", func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: cookieRefresh, Value: "10000000-0000-4000-8000-000000000000.x"})
		}),
		"twice": f.site("GET", at, "/me", "", func(r *http.Request) { a.with()(r); a.with()(r) }),
	}
	for name, got := range refused {
		if got.told() != "401 Unauthorized/Unauthorized" {
			t.Errorf("%s: %s", name, got.told())
		}
	}
	if got := f.site("POST", other, "/logout", "", a.with()); got.Code != 204 {
		t.Error(got.told())
	}
	if got := f.site("GET", at, "/me", "", a.with()); got.Code != 200 {
		t.Errorf("another portal has ended the session: %s", got.told())
	}
	out := f.site("POST", at, "/logout", "", a.with(cookieAccess))
	if out.Code != 204 || out.cookies[cookieAccess].MaxAge >= 0 || out.cookies[cookieRefresh].MaxAge >= 0 {
		t.Errorf("%d %v", out.Code, out.cookies)
	}
	for _, got := range []answer{f.site("GET", at, "/me", "", a.with()), f.site("POST", at, "/refresh", "", a.with())} {
		if got.Code != 401 {
			t.Errorf("after the logout: %s", got.told())
		}
	}
}

// TestRefresh: a refresh token counts once; whoever shows it again ends the session, for both.
func TestRefresh(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.developer(at, "ada@example.com")
	a := f.login(at, "ada@example.com", password)
	f.now = f.now.Add(portal.AccessLife)
	if got := f.site("GET", at, "/me", "", a.with()); got.Code != 401 {
		t.Errorf("an access token that has ended: %s", got.told())
	}
	b := f.site("POST", at, "/refresh", "", a.with())
	if b.Code != 204 || b.cookies[cookieRefresh].Value == a.cookies[cookieRefresh].Value {
		t.Fatalf("%s %v", b.told(), b.cookies)
	}
	if got := f.site("GET", at, "/me", "", b.with()); got.Code != 200 {
		t.Error(got.told())
	}
	if got := f.site("GET", at, "/me", "", a.with()); got.Code != 401 {
		t.Errorf("the old access token: %s", got.told())
	}
	if got := f.site("POST", at, "/refresh", "", a.with()); got.Code != 401 {
		t.Errorf("the old refresh token: %s", got.told())
	}
	for _, got := range []answer{f.site("GET", at, "/me", "", b.with()), f.site("POST", at, "/refresh", "", b.with())} {
		if got.Code != 401 {
			t.Errorf("after the reuse: %s", got.told())
		}
	}
	c := f.login(at, "ada@example.com", password)
	f.now = f.now.Add(portal.RefreshLife)
	if got := f.site("POST", at, "/refresh", "", c.with()); got.Code != 401 {
		t.Errorf("a refresh token that has ended: %s", got.told())
	}
	d := f.login(at, "ada@example.com", password)
	for began := f.now; f.now.Sub(began) < portal.SessionLife-24*time.Hour; f.now = f.now.Add(24 * time.Hour) {
		if d = f.site("POST", at, "/refresh", "", d.with()); d.Code != 204 {
			t.Fatalf("after %s: %s", f.now.Sub(began), d.told())
		}
	}
	f.now = f.now.Add(24 * time.Hour)
	if got := f.site("POST", at, "/refresh", "", d.with()); got.Code != 401 {
		t.Errorf("a session that has lasted too long: %s", got.told())
	}
}

// TestLoggedOut: whoever is not approved any more, or gets another password, has no session.
func TestLoggedOut(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	dev := f.developer(at, "ada@example.com")
	for _, change := range []string{`{"status":"revoked"}`, `{"password":"another password"}`} {
		a := f.login(at, "ada@example.com", password)
		f.must(200, "PATCH", dev, change)
		f.must(200, "PATCH", dev, `{"status":"approved"}`)
		for _, got := range []answer{f.site("GET", at, "/me", "", a.with()), f.site("POST", at, "/refresh", "", a.with())} {
			if got.Code != 401 {
				t.Errorf("%s: %s", change, got.told())
			}
		}
	}
	if got := f.login(at, "ada@example.com", "another password"); got.Code != 204 {
		t.Error(got.told())
	}
	a := f.login(at, "ada@example.com", "another password")
	f.must(204, "DELETE", dev, "")
	if got := f.site("GET", at, "/me", "", a.with()); got.Code != 401 {
		t.Error(got.told())
	}
}

// TestFewSessions: a developer has a bounded number of sessions. The oldest one ends.
func TestFewSessions(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.developer(at, "ada@example.com")
	first := f.login(at, "ada@example.com", password)
	f.now = f.now.Add(time.Second)
	second := f.login(at, "ada@example.com", password)
	for range 19 {
		f.now = f.now.Add(portal.DefaultLimits.Device.Each)
		if got := f.login(at, "ada@example.com", password); got.Code != 204 {
			t.Fatal(got.told())
		}
	}
	if got := f.site("GET", at, "/me", "", first.with()); got.Code != 401 {
		t.Error(got.told())
	}
	if got := f.site("GET", at, "/me", "", second.with()); got.Code != 200 {
		t.Error(got.told())
	}
}

// TestForeignPages: no page of another site changes anything, though browsers send the cookies along.
func TestForeignPages(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.developer(at, "ada@example.com")
	head := func(pairs ...string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Del("Content-Type")
			r.Host = "docs.example.com"
			for i := 0; i < len(pairs); i += 2 {
				r.Header.Add(pairs[i], pairs[i+1])
			}
		}
	}
	for _, test := range []struct {
		name string
		edit func(*http.Request)
		ok   bool
	}{
		{"a page of the portal", head("Origin", "https://docs.example.com", "Sec-Fetch-Site", "same-origin"), true},
		{"a page of the portal, of an old browser", head("Origin", "https://docs.example.com"), true},
		{"a page of the portal over HTTP", head("Origin", "http://docs.example.com"), true},
		{"a program", head("Content-Type", "application/json; charset=utf-8"), true},
		{"a program that says nothing", head(), false},
		{"a form of another site", head("Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Content-Type", "application/x-www-form-urlencoded"), false},
		{"a form of another site, of an old browser", head("Content-Type", "text/plain"), false},
		{"a script of another site", head("Origin", "https://evil.example", "Content-Type", "application/json"), false},
		{"a site beside it", head("Origin", "https://docs.example.com", "Sec-Fetch-Site", "same-site"), false},
		{"another port", head("Origin", "https://docs.example.com:444", "Content-Type", "application/json"), false},
		{"a page without an origin", head("Origin", "null", "Content-Type", "application/json"), false},
		{"two origins", head("Origin", "https://docs.example.com", "Origin", "https://evil.example", "Content-Type", "application/json"), false},
	} {
		a := f.login(at, "ada@example.com", password)
		for _, path := range []string{"/refresh", "/logout"} {
			got := f.site("POST", at, path, "", func(r *http.Request) { a.with()(r); test.edit(r) })
			if ok := got.Code == 204; ok != test.ok || !ok && got.Code != 403 {
				t.Errorf("%s: %s: %s", test.name, path, got.told())
			}
			if got.Code == 204 && path == "/refresh" {
				a = got
			}
		}
		if got := f.site("GET", at, "/me", "", a.with()); (got.Code == 401) != test.ok {
			t.Errorf("%s: it was logged out: %t", test.name, got.Code == 401)
		}
	}
	a := f.site("GET", at, "/me", "", head("Origin", "https://evil.example"))
	if h := a.Header().Get("Access-Control-Allow-Origin"); h != "" {
		t.Errorf("another site may read: %s", h)
	}
	options := f.site("OPTIONS", at, "/logout", "", head("Origin", "https://evil.example", "Access-Control-Request-Method", "POST"))
	if h := options.Header().Get("Access-Control-Allow-Origin") + options.Header().Get("Access-Control-Allow-Headers"); h != "" {
		t.Errorf("another site may ask: %s", h)
	}
}

// TestHosts: a portal is reached by its own hosts, where nothing but its API is served.
func TestHosts(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.developer(at, "ada@example.com")
	domain := f.must(200, "PATCH", at, `{"custom_domain":"docs.example.com"}`)["default_domain"].(string)
	login := func(host string) answer {
		return f.site("POST", at, "/authenticate", fmt.Sprintf(`{"username":"ada@example.com","password":%q}`, password), func(r *http.Request) {
			r.Host, r.URL.Path = host, siteBase+"/authenticate"
		})
	}
	for host, want := range map[string]int{
		domain: 204, strings.ToUpper(domain) + ":5691": 204, domain + ".": 204, "docs.example.com": 204, "docs.example.com:443": 204,
		"portals.example": 404, "x.portals.example": 404, "x." + domain: 404, "localhost": 404, "": 404, "127.0.0.1:5690": 404,
	} {
		if got := login(host); got.Code != want {
			t.Errorf("%s: %s", host, got.told())
		}
	}
	for _, path := range []string{"/v2/portals", "/v2/audit-log-destinations", "/"} {
		got := f.site("GET", at, "", "", func(r *http.Request) {
			r.Host, r.URL.Path = domain, path
			r.Header.Set("Authorization", "Bearer admin")
		})
		if got.Code != 404 {
			t.Errorf("%s on the host of a portal: %s", path, got.told())
		}
	}
	got := f.site("GET", "/v2/portals/10000000-0000-4000-8000-000000000000", "/me", "", nil)
	if got.Code != 404 {
		t.Errorf("no portal: %s", got.told())
	}
}

// TestOnlyThePortal: on the hosts of a portal there is nothing but that portal: neither what manages
// portals, whoever asks, nor other portals.
func TestOnlyThePortal(t *testing.T) {
	f := setup(t)
	at, other := f.portal("docs"), f.portal("other")
	domain := f.must(200, "PATCH", at, `{"custom_domain":"docs.example.com"}`)["default_domain"].(string)
	get := func(host, path string) answer {
		return f.site("GET", at, "", "", func(r *http.Request) {
			r.Host, r.URL.Path = host, path
			r.Header.Set("Authorization", "Bearer admin")
		})
	}
	me := func(at string) string { return strings.TrimPrefix(at, "/v2") + siteBase + "/me" }
	for _, host := range []string{domain, "docs.example.com", "DOCS.example.com.:5691"} {
		for path, want := range map[string]int{
			portalsPath: 404, at: 404, destinations: 404, controlPlanes: 404, "/v2/audit-log-webhook/jwks.json": 404, "/v2/openapi.json": 404, "/": 404,
			me(other): 404, me(at): 401, siteBase + "/me": 401,
		} {
			if got := get(host, path); got.Code != want {
				t.Errorf("%s%s: %s, want %d", host, path, got.told(), want)
			}
		}
	}
	if got := get("other.portals.example", me(at)); got.Code != 404 {
		t.Errorf("a portal on a host that none has: %s", got.told())
	}
	for host, want := range map[string]int{"api.example.com": 200, "localhost:5690": 200, "127.0.0.1": 200, "[::1]:5690": 200, "": 200} {
		if got := get(host, portalsPath); got.Code != want {
			t.Errorf("%s: %s", host, got.told())
		}
	}
	got := f.site("PATCH", other, "", `{"custom_domain":"api.example.com"}`, func(r *http.Request) {
		r.Host, r.URL.Path = "api.example.com:5691", other
		r.Header.Set("Authorization", "Bearer admin")
	})
	if want := "400 Invalid Request/Invalid Parameters/custom_domain/must not be the host of this API/invalid"; got.told() != want {
		t.Errorf("a portal takes the host of the API: %s", got.told())
	}
}

// TestNoOtherIdentity: nobody is a developer of a portal, or more, by what the other API knows.
func TestNoOtherIdentity(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	got := f.site("GET", at, "/me", "", func(r *http.Request) { r.Header.Set("Authorization", "Bearer admin") })
	if got.Code != 401 {
		t.Error(got.told())
	}
	f.developer(at, "ada@example.com")
	a := f.login(at, "ada@example.com", password)
	got = f.site("GET", at, "", "", func(r *http.Request) {
		a.with()(r)
		r.URL.Path = at
	})
	if got.Code != 401 {
		t.Errorf("a developer manages portals: %s", got.told())
	}
}

// TestNothingInClear: neither passwords, also those that are wrong, nor tokens are in the store.
func TestNothingInClear(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.hook(at)
	dev := f.developer(at, "ada@example.com")
	a := f.login(at, "ada@example.com", password)
	const mistyped = "corect horse"
	if got := f.login(at, "ada@example.com", mistyped).told(); a.Code != 204 || got != toldInvalid {
		t.Errorf("%s, %s", a.told(), got)
	}
	token := f.must(201, "POST", dev+"/verification-token", "")["token"].(string)
	secrets := []string{password, mistyped, token}
	for _, c := range a.cookies {
		_, secret, _ := strings.Cut(c.Value, ".")
		secrets = append(secrets, secret)
	}
	seen := map[string]int{}
	for _, k := range cloud.Kinds() {
		for _, row := range f.rows(k, at) {
			raw, err := json.Marshal(row.Spec)
			if err != nil {
				t.Fatal(err)
			}
			seen[k.Name]++
			for _, secret := range secrets {
				if strings.Contains(string(raw)+row.Name, secret) {
					t.Errorf("a %s holds %q", k.Name, secret)
				}
			}
		}
	}
	if len(secrets) != 5 || seen[cloud.Events.Name] != 2 || seen[cloud.Sessions.Name] != 1 || seen[cloud.Invitations.Name] != 1 || seen[cloud.Passwords.Name] != 1 {
		t.Errorf("%d secrets were looked for in %v", len(secrets), seen)
	}
}

// TestHostsOfTheAPI: no portal takes a host that the settings give to this API, whichever host the caller
// names, and one that had it before is not served there.
func TestHostsOfTheAPI(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	domain := f.must(200, "PATCH", at, `{"custom_domain":"cloud.example.com"}`)["default_domain"].(string)
	get := func(host, path string) int {
		return f.site("GET", at, "", "", func(r *http.Request) {
			r.Host, r.URL.Path = host, path
			r.Header.Set("Authorization", "Bearer admin")
		}).Code
	}
	if got := get("cloud.example.com", portalsPath); got != 404 {
		t.Errorf("a host that no setting names is that of the portal: %d", got)
	}
	f.api.Hosts = []string{"cloud.example.com", "api.example.com", "admin.portals.example", domain}
	me := strings.TrimPrefix(at, "/v2") + siteBase + "/me"
	for _, host := range []string{"cloud.example.com", "CLOUD.example.com.:5691", "api.example.com", "admin.portals.example", domain} {
		for path, want := range map[string]int{portalsPath: 200, destinations: 200, siteBase + "/me": 404, me: 401} {
			if got := get(host, path); got != want {
				t.Errorf("%s%s: %d, want %d", host, path, got, want)
			}
		}
	}
	for _, named := range []string{"cloud.example.com", "api.example.com"} {
		for method, path := range map[string]string{"POST": portalsPath, "PATCH": at} {
			got := told(f.do(method, path, fmt.Sprintf(`{"name":"other","custom_domain":%q}`, named)))
			if want := "400 Invalid Request/Invalid Parameters/custom_domain/must not be the host of this API/invalid"; got != want {
				t.Errorf("%s %s: %s", method, named, got)
			}
		}
	}
	f.must(200, "PATCH", at, `{"custom_domain":"docs.example.com"}`)
}
