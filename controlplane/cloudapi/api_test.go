package cloudapi

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/openapi/openapitest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.UnixMilli(1700000000123)

type fixture struct {
	t       *testing.T
	handler http.Handler
	api     *API
	now     time.Time
	// contract, if set, is what all answers must conform to.
	contract *openapitest.Contract
}

func setup(t *testing.T) *fixture {
	t.Helper()
	return setupOn(t, func(now func() time.Time) store.Store { return memstore.Open(memstore.Options{Now: now}) })
}

// setupOn is setup on another store than one in memory.
func setupOn(t *testing.T, open func(now func() time.Time) store.Store) *fixture {
	t.Helper()
	f := &fixture{t: t, now: epoch}
	now := func() time.Time { return f.now }
	s := open(now)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	gate := admit.New(s, &admittest.Revoker{}, cloud.Kinds(), now)
	api := New(Options{
		Store: s, Gate: gate, Log: slog.New(slog.DiscardHandler), Now: now, Vendor: "meshgate", Global: true, Regional: true,
		Accounts: accounts(s, gate, now), PortalDomain: "portals.example", Signer: signer(t),
		Rules: access.New(access.Options{Identified: true, Roles: []access.Role{
			{Role: "viewer", All: true, Users: []string{"vera"}}, {Role: "editor", All: true, Users: []string{"eddie"}},
		}}),
		Identify: func(r *http.Request) (model.Actor, error) {
			switch token, _ := httpkit.TokenOf(r); token {
			case "admin":
				return model.Administrator(), nil
			case "vera":
				return model.User("vera"), nil
			case "eddie":
				return model.User("eddie"), nil
			case "":
				return model.Anonymous(), nil
			}
			return model.Actor{}, fault.New(fault.Denied, "no such token")
		},
	})
	f.api, f.handler = api, httpkit.Observe(api.Handler(), slog.New(slog.DiscardHandler))
	return f
}

// as sends a request with a token.
func (f *fixture) as(token, method, target, body string) (int, map[string]any) {
	f.t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	doc := map[string]any{}
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
			f.t.Fatalf("%s %s: %v in %s", method, target, err, w.Body)
		}
	}
	want := "application/json; charset=utf-8"
	if w.Code >= http.StatusBadRequest {
		want = typeProblem
		for _, member := range []string{"title", "detail", "instance"} {
			if text, _ := doc[member].(string); text == "" {
				f.t.Errorf("%s %s: the problem has no %s: %s", method, target, member, w.Body)
			}
		}
		if !strings.HasPrefix(doc["instance"].(string), "meshgate:trace:") || doc["status"] != float64(w.Code) {
			f.t.Errorf("%s %s: %s", method, target, w.Body)
		}
	}
	if got := w.Header().Get("Content-Type"); got != want && w.Body.Len() > 0 {
		f.t.Errorf("%s %s: the answer is %s", method, target, got)
	}
	if f.contract != nil {
		f.contract.Conforms(f.t, r, body, false, w)
	}
	return w.Code, doc
}

func (f *fixture) do(method, target, body string) (int, map[string]any) {
	f.t.Helper()
	return f.as("admin", method, target, body)
}

const destinations = "/v2/audit-log-destinations"

func destination(name string) string {
	return fmt.Sprintf(`{"name":%q,"endpoint":"https://siem.example/in","authorization":"Basic c2VjcmV0","log_format":"cef"}`, name)
}

// created returns the id of a new destination.
func (f *fixture) created(name string) string {
	f.t.Helper()
	status, doc := f.do(http.MethodPost, destinations, destination(name))
	if status != http.StatusOK {
		f.t.Fatalf("%d %v", status, doc)
	}
	return doc["id"].(string)
}

// TestDestinations: what is written is read back, but for the credential.
func TestDestinations(t *testing.T) {
	f := setup(t)
	id := f.created("siem")
	want := map[string]any{
		"id": id, "name": "siem", "endpoint": "https://siem.example/in", "log_format": "cef", "skip_ssl_verification": false,
		"created_at": "2023-11-14T22:13:20.123Z", "updated_at": "2023-11-14T22:13:20.123Z",
	}
	same := func(doc map[string]any) {
		t.Helper()
		if a, b := fmt.Sprint(doc), fmt.Sprint(want); a != b {
			t.Errorf("the document is\n%s\nwant\n%s", a, b)
		}
	}
	status, doc := f.do(http.MethodGet, destinations+"/"+id, "")
	same(doc)
	status2, doc := f.do(http.MethodPatch, destinations+"/"+id, `{"log_format":"json","skip_ssl_verification":true}`)
	want["log_format"], want["skip_ssl_verification"] = "json", true
	same(doc)
	status3, doc := f.do(http.MethodGet, destinations, "")
	if data := doc["data"].([]any); len(data) == 1 {
		same(data[0].(map[string]any))
	} else {
		t.Errorf("the list is %v", doc)
	}
	status4, _ := f.do(http.MethodDelete, destinations+"/"+id, "")
	status5, _ := f.do(http.MethodGet, destinations+"/"+id, "")
	status6, _ := f.do(http.MethodDelete, destinations+"/"+id, "")
	if got := []int{status, status2, status3, status4, status5, status6}; !slices.Equal(got, []int{200, 200, 200, 204, 404, 404}) {
		t.Errorf("the statuses are %v", got)
	}
}

// TestRefusals: each mistake is named, by the rule that clients know.
func TestRefusals(t *testing.T) {
	f := setup(t)
	id := f.created("taken")
	for _, test := range []struct {
		method, path, body string
		want               string // status, title, detail, and the first parameter: field, reason, rule
	}{
		{"POST", "", `{"name":`, "400 Bad Request/Could not parse request body/body/request format is invalid/"},
		{"POST", "", `{"name":"a","endpoint":"https://a.example","log_format":"cef"}`, "400 Bad Request/Required field missing/authorization/cannot be blank/required"},
		{"POST", "", `{"name":"a","endpoint":"https://a.example","log_format":"cef","authorization":""}`, "400 Bad Request/Required field missing/authorization/cannot be blank/required"},
		{"POST", "", `{"name":"a","log_format":"cef","authorization":"x"}`, "400 Bad Request/Required field missing/endpoint/cannot be blank/required"},
		{"POST", "", `{"name":"a","endpoint":"siem","log_format":"cef","authorization":"x"}`, "400 Bad Request/Invalid endpoint/endpoint/must be a valid URL/invalid"},
		{"POST", "", `{"name":"a","endpoint":"ftp://h/","log_format":"cef","authorization":"x"}`, "400 Bad Request/Invalid endpoint/endpoint/must be a valid URL/invalid"},
		{"POST", "", `{"name":"a","endpoint":"https://u:p@h/","log_format":"cef","authorization":"x"}`, "400 Bad Request/Invalid endpoint/endpoint/must not hold a user: authorization is what is sent/invalid"},
		{"POST", "", `{"name":"a","endpoint":"https://h/","log_format":"cef","authorization":"x\ny: z"}`, "400 Invalid Request/Invalid Parameters/authorization/must not hold control characters/invalid"},
		{"POST", "", `{"name":"a","endpoint":"https://h/","log_format":"cps","authorization":"x"}`, "400 Invalid Request/Invalid Parameters/log_format/expected one of: cef, json/enum"},
		{"POST", "", `{"endpoint":"https://h/","log_format":"cef","authorization":"x"}`, `400 Invalid Request/Invalid Parameters/name/"name" is required/required`},
		{"POST", "", `{"name":1,"endpoint":"https://h/","log_format":"cef","authorization":"x"}`, "400 Invalid Request/Invalid Parameters/name/expected a string/is_string"},
		{"POST", "", `{"name":"a","endpoint":"https://h/","log_format":"cef","authorization":"x","skip_ssl_verification":"no"}`, "400 Invalid Request/Invalid Parameters/skip_ssl_verification/expected a boolean/is_boolean"},
		{"POST", "", `{"name":"a","endpoint":"https://h/","log_format":"cef","authorization":"x","colour":1}`, "400 Invalid Request/Invalid Parameters/colour/property colour should not exist/unknown_property"},
		{"POST", "", `{"id":"10000000-0000-4000-8000-000000000000","name":"a","endpoint":"https://h/","log_format":"cef","authorization":"x"}`, "400 Invalid Request/Invalid Parameters/id/property id should not exist/unknown_property"},
		{"POST", "", `{"name":"` + strings.Repeat("n", 256) + `","endpoint":"https://h/","log_format":"cef","authorization":"x"}`, "400 Invalid Request/Invalid Parameters/name/length must be at most 255/max_length"},
		{"POST", "", destination("taken"), "409 Conflict/Audit log destination with provided name already exists."},
		{"PATCH", "/" + id, `{"log_format":"xml"}`, "400 Invalid Request/Invalid Parameters/log_format/expected one of: cef, json/enum"},
		{"PATCH", "/10000000-0000-4000-8000-000000000000", `{"log_format":"xml"}`, "404 Not Found/Not Found"},
		{"GET", "/nonsense", "", "404 Not Found/Not Found"},
		{"PUT", "/" + id, destination("b"), "405 Method Not Allowed/Method Not Allowed"},
		{"GET", "?page[size]=ten", "", "400 Invalid Request/Invalid Parameters/page[size]/must be a number/is_number"},
		{"GET", "?page[size]=0", "", "400 Invalid Request/Invalid Parameters/page[size]/must be at least 1/min"},
		{"GET", "?page[size]=101", "", "400 Invalid Request/Invalid Parameters/page[size]/must be at most 100/max"},
		{"GET", "?page[after]=x", "", "400 Invalid Request/Invalid Parameters/page[after]/is no cursor of this list/invalid"},
		{"GET", "?page[number]=1", "", "400 Invalid Request/Invalid Parameters/page[number]/property page[number] should not exist/unknown_property"},
		{"GET", "?filter[authorization]=x", "", "400 Invalid Request/Invalid Parameters/filter[authorization]/property filter[authorization] should not exist/unknown_property"},
		{"GET", "?filter[name][like]=x", "", "400 Invalid Request/Invalid Parameters/filter[name][like]/property filter[name][like] should not exist/unknown_property"},
	} {
		status, doc := f.do(test.method, destinations+test.path, test.body)
		got := fmt.Sprintf("%d %v/%v", status, doc["title"], doc["detail"])
		if list, _ := doc["invalid_parameters"].([]any); len(list) > 0 {
			p := list[0].(map[string]any)
			rule, _ := p["rule"].(string)
			got += fmt.Sprintf("/%v/%v/%s", p["field"], p["reason"], rule)
		}
		if got != test.want {
			t.Errorf("%s %s %s:\n%s\nwant\n%s", test.method, test.path, test.body, got, test.want)
		}
	}
}

// TestCallers: who shows no token, or one that is not valid, or may not, learns nothing.
func TestCallers(t *testing.T) {
	f := setup(t)
	id := f.created("siem")
	for _, test := range []struct {
		token, method, path string
		status              int
	}{
		{"", "GET", "", 401}, {"stale", "GET", "", 401}, {"", "POST", "", 401}, {"stale", "DELETE", "/" + id, 401},
		{"vera", "GET", "", 200}, {"vera", "GET", "/" + id, 200}, {"vera", "POST", "", 403}, {"vera", "PATCH", "/" + id, 403}, {"vera", "DELETE", "/" + id, 403},
		{"vera", "DELETE", "/nonsense", 403},
	} {
		status, doc := f.as(test.token, test.method, destinations+test.path, "")
		if status != test.status {
			t.Errorf("%s: %s %s: %d %v", test.token, test.method, test.path, status, doc)
		}
	}
	if status, _ := f.do(http.MethodGet, destinations+"/"+id, ""); status != http.StatusOK {
		t.Errorf("it is gone: %d", status)
	}
}

// TestPages: whoever follows next sees each once, and by previous the same way back.
func TestPages(t *testing.T) {
	f := setup(t)
	want := map[string]bool{}
	for i := range 7 {
		want[f.created(fmt.Sprintf("siem-%d", i))] = true
	}
	var ids []string
	var pages []string
	walk := func(target, direction string) {
		t.Helper()
		for target != "" {
			status, doc := f.do(http.MethodGet, target, "")
			if status != http.StatusOK || len(pages) > 20 {
				t.Fatalf("%s: %d %v", target, status, doc)
			}
			pages = append(pages, target)
			for _, d := range doc["data"].([]any) {
				ids = append(ids, d.(map[string]any)["id"].(string))
			}
			meta := doc["meta"].(map[string]any)
			if meta["size"] != 3.0 {
				t.Errorf("%s: the size is %v", target, meta["size"])
			}
			target, _ = meta[direction].(string)
		}
	}
	walk(destinations+"?page[size]=3&filter[name][contains]=siem", "next")
	if len(ids) != 7 || len(pages) != 3 || !slices.IsSorted(ids) {
		t.Fatalf("%d ids on %d pages: %v", len(ids), len(pages), ids)
	}
	for _, id := range ids {
		if !want[id] {
			t.Errorf("%s is twice there or nobody's", id)
		}
		delete(want, id)
	}
	last := pages[len(pages)-1]
	ids, pages = nil, nil
	walk(last, "previous")
	if len(ids) != 7 || len(pages) != 3 {
		t.Errorf("%d ids on %d pages on the way back", len(ids), len(pages))
	}
	for filter, n := range map[string]int{
		"filter[name]=siem-3": 1, "filter[name][eq]=siem-3": 1, "filter[name][neq]=siem-3": 6, "filter[name][contains]=m-": 7, "filter[name][contains]=x": 0,
		"filter[name][oeq]=siem-1,siem-2,siem": 2,
	} {
		if _, doc := f.do(http.MethodGet, destinations+"?"+filter, ""); len(doc["data"].([]any)) != n {
			t.Errorf("%s: %v", filter, doc["data"])
		}
	}
}
