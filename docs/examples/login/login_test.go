package main

import (
	"encoding/json"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// world is the application between a user's browser and a gateway that is faked.
type world struct {
	*testing.T
	url     string
	browser *http.Client
	// posted are the forms that the gateway got, authorization what came with
	// the last one.
	posted        []url.Values
	paths         []string
	authorization []string
	// status, body and challenge are what the gateway answers.
	status          int
	body, challenge string
}

// users have passwords that are hashed fast, unlike those of the application.
var users = sync.OnceValues(func() (*directory, error) {
	return newDirectory([]user{{Name: "ada", Password: "secret", ID: "user-1"}}, 1, time.Now)
})

const registered = "https://app.example/cb?x=y"

func newWorld(t *testing.T) *world {
	w := &world{T: t, status: 200, body: `{"redirect_uri":"https://app.example/cb?code=C&state=s"}`}
	fake := http.NewServeMux()
	fake.HandleFunc("GET /oauth2", func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("client_id") {
		case "app":
			_, _ = io.WriteString(rw, `{"data":[{"name":"<b>Photos</b>","redirect_uris":["`+registered+`","https://app.example/two"],"consumer":{"id":"c-1"}}],"next":null}`)
		case "broken":
			rw.WriteHeader(500)
		default:
			_, _ = io.WriteString(rw, `{"data":[],"next":null}`)
		}
	})
	fake.HandleFunc("GET /consumers/c-1", func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, `{"username":"alice"}`) })
	fake.HandleFunc("POST /app/oauth2/{endpoint}", func(rw http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		w.posted, w.paths, w.authorization = append(w.posted, r.PostForm), append(w.paths, r.URL.Path), r.Header.Values("Authorization")
		rw.Header().Set("Content-Type", "application/json; charset=utf-8")
		if w.challenge != "" {
			rw.Header().Set("WWW-Authenticate", w.challenge)
		}
		rw.WriteHeader(w.status)
		_, _ = io.WriteString(rw, w.body)
	})
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	d, err := users()
	if err != nil {
		t.Fatal(err)
	}
	a, err := newApp(&config{
		Gateway: server.URL + "/app/", Admin: server.URL, ProvisionKey: "the-key", PasswordFlow: true,
	}, d, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(a.handler())
	t.Cleanup(front.Close)
	w.url, w.browser = front.URL, newBrowser(t)
	return w
}

// newBrowser keeps cookies and follows no redirect.
func newBrowser(t *testing.T) *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// page is an answer that was read.
type page struct {
	status int
	header http.Header
	text   string
}

func (w *world) send(method, path string, form url.Values, header http.Header) page {
	w.Helper()
	req, err := http.NewRequest(method, w.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		w.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for k, v := range header {
		req.Header[k] = v
	}
	resp, err := w.browser.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return page{resp.StatusCode, resp.Header, string(text)}
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// fields are the hidden fields of the first form of a page.
func (p page) fields() url.Values {
	out := url.Values{}
	form, _, _ := strings.Cut(p.text, "</form>")
	for _, m := range hidden.FindAllStringSubmatch(form, -1) {
		out.Add(m[1], html.UnescapeString(m[2]))
	}
	return out
}

// expect checks status and Location.
func (w *world) expect(p page, status int, location string) {
	w.Helper()
	if p.status != status || p.header.Get("Location") != location {
		w.Fatalf("got %d %q, want %d %q\n%s", p.status, p.header.Get("Location"), status, location, p.text)
	}
}

// login logs ada in.
func (w *world) login() {
	w.Helper()
	form := w.send("GET", "/login", nil, nil).fields()
	form.Set("username", "ada")
	form.Set("password", "secret")
	w.expect(w.send("POST", "/login", form, nil), 303, "/authorize?")
}

// consent logs ada in and fills in the consent form of a request.
func (w *world) consent(query, decision string) page {
	w.Helper()
	w.login()
	p := w.send("GET", "/authorize?"+query, nil, nil)
	if p.status != 200 {
		return p
	}
	form := p.fields()
	form.Set("decision", decision)
	return w.send("POST", "/consent", form, nil)
}

const asks = "client_id=app&response_type=code&scope=email+phone&state=%22s%22&code_challenge=C&code_challenge_method=S256"

func TestAuthorizationCodeFlow(t *testing.T) {
	w := newWorld(t)
	p := w.send("GET", "/authorize?"+asks, nil, nil)
	w.expect(p, 303, "/login?"+asks)
	form := w.send("GET", "/login?"+asks, nil, nil).fields()
	form.Set("username", "ada")
	form.Set("password", "wrong")
	p = w.send("POST", "/login", form, nil)
	w.expect(p, 401, "")
	form = p.fields()
	form.Set("username", "ada")
	form.Set("password", "secret")
	p = w.send("POST", "/login", form, nil)
	w.expect(p, 303, "/authorize?"+asks)
	p = w.send("GET", p.header.Get("Location"), nil, nil)
	for _, want := range []string{"&lt;b&gt;Photos&lt;/b&gt;", "of alice", html.EscapeString(registered), "<li>email</li><li>phone</li>"} {
		if !strings.Contains(p.text, want) {
			t.Errorf("the page does not say %s:\n%s", want, p.text)
		}
	}
	form = p.fields()
	form.Set("decision", "allow")
	form.Set("authenticated_userid", "root")
	form.Set("provision_key", "guessed")
	w.expect(w.send("POST", "/consent", form, http.Header{"Authorization": {"Basic YXBwOnM="}}), 303, "https://app.example/cb?code=C&state=s")
	want := url.Values{
		"client_id": {"app"}, "response_type": {"code"}, "scope": {"email phone"}, "state": {`"s"`}, "code_challenge": {"C"},
		"code_challenge_method": {"S256"}, "provision_key": {"the-key"}, "authenticated_userid": {"user-1"},
	}
	if diff := cmp.Diff([]url.Values{want}, w.posted); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"Basic YXBwOnM="}, w.authorization); diff != "" {
		t.Error(diff)
	}
}

func TestGatewayDecidesWhereTheUserGoes(t *testing.T) {
	const failed = "https://app.example/cb?error=invalid_scope"
	for _, c := range []struct {
		name     string
		status   int
		body     string
		want     int
		location string
	}{
		{"granted", 200, `{"redirect_uri":"https://app.example/cb#access_token=T"}`, 303, "https://app.example/cb#access_token=T"},
		{"refused", 400, `{"redirect_uri":"` + failed + `"}`, 303, failed},
		{"refused without a safe address", 400, `{"error":"invalid_client","error_description":"Invalid client authentication"}`, 502, ""},
		{"no JSON", 503, `away`, 502, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.status, w.body = c.status, c.body
			w.expect(w.consent(asks, "allow"), c.want, c.location)
		})
	}
}

func TestRequestsThatAreAnsweredHere(t *testing.T) {
	for _, c := range []struct {
		query, decision string
		status          int
		location        string
	}{
		{"client_id=nobody", "allow", 400, ""},
		{"", "allow", 400, ""},
		{"client_id=broken", "allow", 502, ""},
		{"client_id=app&client_id=app", "allow", 400, ""},
		{"client_id=app&redirect_uri=https%3A%2F%2Fevil.example%2F", "allow", 400, ""},
		{"client_id=app&redirect_uri=https%3A%2F%2Fapp.example%2Fcb", "allow", 400, ""},
		{"client_id=app&redirect_uri=", "allow", 400, ""},
		{"client_id=app&state=s+1", "deny", 303, "https://app.example/cb?error=access_denied&state=s+1&x=y"},
		{"client_id=app", "", 303, "https://app.example/cb?error=access_denied&x=y"},
		{"client_id=app&redirect_uri=https%3A%2F%2Fapp.example%2Ftwo", "deny", 303, "https://app.example/two?error=access_denied"},
	} {
		t.Run(c.query+" "+c.decision, func(t *testing.T) {
			w := newWorld(t)
			w.expect(w.consent(c.query, c.decision), c.status, c.location)
			if len(w.posted) != 0 {
				t.Errorf("the gateway was asked: %v", w.posted)
			}
		})
	}
}

func TestForgedForms(t *testing.T) {
	w := newWorld(t)
	w.expect(w.send("POST", "/login", url.Values{"username": {"ada"}, "password": {"secret"}}, nil), 403, "")
	w.login()
	p := w.send("GET", "/authorize?"+asks, nil, nil)
	form := p.fields()
	form.Set("decision", "allow")
	good := form.Get("csrf")
	for _, bad := range []string{"", "x", good + "x"} {
		form.Set("csrf", bad)
		w.expect(w.send("POST", "/consent", form, nil), 403, "")
		w.expect(w.send("POST", "/logout", form, nil), 403, "")
	}
	form.Set("csrf", good)
	w.expect(w.send("POST", "/consent", form, http.Header{"Sec-Fetch-Site": {"cross-site"}}), 403, "")
	w.expect(w.send("POST", "/consent", form, http.Header{"Origin": {"https://evil.example"}}), 403, "")
	victim := w.browser
	w.browser = newBrowser(t)
	w.login()
	w.expect(w.send("POST", "/consent", form, nil), 403, "") // the token of another session
	w.browser = victim
	if len(w.posted) != 0 {
		t.Errorf("the gateway was asked: %v", w.posted)
	}
	w.expect(w.send("POST", "/logout", form, nil), 303, "/login")
	w.expect(w.send("POST", "/consent", form, nil), 403, "")
}

func TestHygiene(t *testing.T) {
	w := newWorld(t)
	pages := []page{w.send("GET", "/login", nil, nil), w.send("GET", "/nowhere", nil, nil), w.send("GET", "/style.css", nil, nil), w.consent(asks, "allow")}
	for _, p := range pages {
		for name, want := range hygiene {
			if got := p.header.Get(name); got != want {
				t.Errorf("%s is %q", name, got)
			}
		}
		for name := range p.header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s is there", name)
			}
		}
	}
	for _, secure := range []bool{false, true} {
		s := &sessions{secure: secure}
		want := map[bool]string{
			false: "session=v; Path=/; HttpOnly; SameSite=Lax", true: "__Host-session=v; Path=/; HttpOnly; Secure; SameSite=Lax",
		}[secure]
		if diff := cmp.Diff(want, s.cookie("session", "v", http.SameSiteLaxMode).String()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestPasswordFlow(t *testing.T) {
	full := func(change url.Values) url.Values {
		form := url.Values{"grant_type": {"password"}, "client_id": {"app"}, "client_secret": {"s"}, "scope": {"email"}, "username": {"ada"}, "password": {"secret"}, "authenticated_userid": {"root"}}
		for k, v := range change {
			form[k] = v
		}
		return form
	}
	t.Run("passes the answer on", func(t *testing.T) {
		w := newWorld(t)
		w.status, w.body, w.challenge = 401, `{"error": "invalid_client"}`, `Basic realm="OAuth2.0"`
		p := w.send("POST", "/token", full(nil), http.Header{"Authorization": {"Basic YXBwOnM="}})
		if p.status != 401 || p.text != w.body || p.header.Get("WWW-Authenticate") != w.challenge || p.header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("got %+v", p)
		}
		want := url.Values{"grant_type": {"password"}, "client_id": {"app"}, "client_secret": {"s"}, "scope": {"email"}, "provision_key": {"the-key"}, "authenticated_userid": {"user-1"}}
		if diff := cmp.Diff([]url.Values{want}, w.posted); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"/app/oauth2/token"}, w.paths); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"Basic YXBwOnM="}, w.authorization); diff != "" {
			t.Error(diff)
		}
	})
	for _, c := range []struct {
		change url.Values
		want   string
	}{
		{url.Values{"password": {"wrong"}}, "invalid_grant"},
		{url.Values{"username": {"eve"}}, "invalid_grant"},
		{url.Values{"username": {"ada", "eve"}}, "invalid_request"},
		{url.Values{"grant_type": {"client_credentials"}}, "unsupported_grant_type"},
	} {
		t.Run(c.change.Encode(), func(t *testing.T) {
			w := newWorld(t)
			p := w.send("POST", "/token", full(c.change), nil)
			var got struct {
				Error string `json:"error"`
			}
			if err := json.Unmarshal([]byte(p.text), &got); err != nil || p.status != 400 || got.Error != c.want || len(w.posted) != 0 {
				t.Errorf("%d %s, the gateway got %v", p.status, p.text, w.posted)
			}
		})
	}
}
