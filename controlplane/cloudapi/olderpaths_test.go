package cloudapi

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/gatewayapi/tooltest"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TestOlderPaths is the transcript of the declarative tool in its cloud mode.
func TestOlderPaths(t *testing.T) {
	f := setupPlanes(t)
	a := f.plane("shop", cloud.TypeHybrid)
	if doc := f.expects(200, "GET", "/v2/organizations/me", ""); doc["name"] != "org" || doc["id"] != "o" {
		t.Errorf("%v", doc)
	}
	doc := f.expects(200, "GET", olderPath+"?size=100&page=1", "")
	found := map[any]any{}
	for _, item := range doc["data"].([]any) {
		found[item.(map[string]any)["name"]] = item.(map[string]any)["id"]
	}
	if len(found) != 2 || found["shop"] != a || found["default"] != cloud.DefaultID || doc["pageCount"] != 1.0 {
		t.Errorf("%v", doc)
	}
	plane := olderPath + "/" + a
	const id, consumer, upstream = "10000000-0000-4000-8000-000000000001", "10000000-0000-4000-8000-000000000002", "10000000-0000-4000-8000-000000000003"
	const owner = `,"consumer":{"id":"` + consumer + `","username":"anna"}}`
	for _, call := range []struct {
		method, path, body string
		want               int
	}{
		{"GET", "/services?size=1000", "", 200}, {"GET", "/routes?size=1000&tags=a%2Cb", "", 200}, {"GET", "/plugins?size=1000", "", 200},
		{"GET", "/consumers?size=1000", "", 200}, {"GET", "/upstreams?size=1000", "", 200}, {"GET", "/certificates?size=1000", "", 200},
		{"GET", "/snis?size=1000", "", 200}, {"GET", "/consumer_groups?size=1000", "", 404}, {"GET", "/schemas/plugins/oauth2", "", 200},
		{"GET", "/v1/schemas/json/service", "", 200}, {"GET", "/v1/schemas/json/consumer_group", "", 404},
		{"PUT", "/services/" + id, `{"id":"` + id + `","name":"s","host":"h.test","port":80,"protocol":"http"}`, 200},
		{"PUT", "/consumers/" + consumer, `{"id":"` + consumer + `","username":"anna"}`, 200},
		{"PUT", "/upstreams/" + upstream, `{"id":"` + upstream + `","name":"u.test"}`, 200},
		{"PUT", "/upstreams/" + upstream + "/targets/" + id, `{"id":"` + id + `","target":"10.0.0.1:80","upstream":{"id":"` + upstream + `"}}`, 200},
		{"GET", "/upstreams/" + upstream + "/targets?size=1000", "", 200},
		{"PUT", "/routes/" + id, `{"id":"` + id + `","name":"r","paths":["/r"],"service":{"id":"` + id + `"}}`, 200},
		{"PUT", "/plugins/" + id, `{"id":"` + id + `","name":"oauth2","config":{"enable_client_credentials":true,"provision_key":"k","scopes":["read"]},"route":{"id":"` + id + `"}}`, 200},
		{"PUT", "/consumers/" + consumer + "/key-auth/" + id, `{"id":"` + id + `","key":"k"` + owner, 200},
		{"PUT", "/consumers/" + consumer + "/oauth2/" + id, `{"id":"` + id + `","name":"a","client_id":"a","client_secret":"s","redirect_uris":["https://a.example/"]` + owner, 200},
		{"PUT", "/routes/" + id, `{"id":"` + id + `","name":"r","paths":["/q"],"service":{"id":"` + id + `"}}`, 200},
		{"PUT", "/plugins/" + id, `{"id":"` + id + `","name":"oauth2","config":{"enable_client_credentials":true,"provision_key":"k","scopes":["write"]},"route":{"id":"` + id + `"}}`, 200},
		{"DELETE", "/plugins/" + id, "", 204}, {"DELETE", "/routes/" + id, "", 204},
		{"DELETE", "/upstreams/" + upstream + "/targets/" + id, "", 204}, {"DELETE", "/upstreams/" + upstream, "", 204},
		{"DELETE", "/consumers/" + consumer + "/key-auth/" + id, "", 204},
		{"DELETE", "/services/" + id, "", 204},
	} {
		if status, body := f.raw("admin", call.method, plane+call.path, call.body); status != call.want {
			t.Errorf("%s %s: %d %s, want %d", call.method, call.path, status, body, call.want)
		}
	}
	if got := f.has(a, "/consumers"); got != 1 {
		t.Errorf("the control plane has %d consumers", got)
	}
}

// TestDeclarativeToolInCloudMode: the tool reads no applications there and makes them under new ids in
// each run. Nothing of that is refused, nothing else is written twice, and tokens go on.
func TestDeclarativeToolInCloudMode(t *testing.T) {
	f := setupPlanes(t)
	a := f.plane("shop", cloud.TypeHybrid)
	tool := &tooltest.Tool{T: t, Cloud: true, Tags: "managed", Do: func(method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, olderPath+"/"+a+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer admin")
		w := httptest.NewRecorder()
		f.handler.ServeHTTP(w, r)
		return w
	}}
	file := tooltest.File()
	if writes, deletes := tool.Sync(file); writes != len(file) || deletes != 0 {
		t.Fatalf("first sync: %d writes, %d deletes: %v", writes, deletes, tool.Requests)
	}
	application := f.only(a, "/oauth2")
	service := f.only(a, "/services")
	if status, body := f.raw("admin", "POST", entities(a)+"/oauth2_tokens", `{"access_token":"t","expires_in":3600,"credential":{"id":"`+application+`"},"service":{"id":"`+service+`"}}`); status != 201 {
		t.Fatal(status, body)
	}
	for range 2 {
		if writes, deletes := tool.Sync(file); writes != 1 || deletes != 0 || !strings.Contains(tool.Requests[0], "/oauth2/") {
			t.Fatalf("another sync: %d writes, %d deletes: %v", writes, deletes, tool.Requests)
		}
	}
	if now := f.only(a, "/oauth2"); now != application {
		t.Errorf("the application was %s and is %s", application, now)
	}
	f.only(a, "/oauth2_tokens")
	file[1].Body["client_secret"] = "another"
	tool.Sync(file)
	_, body := f.raw("admin", "GET", entities(a)+"/oauth2/"+application, "")
	if !strings.Contains(body, `"client_secret":"another"`) {
		t.Errorf("the second secret is not taken: %s", body)
	}
}

// only returns the id of the only entity of a collection.
func (f *planeFixture) only(plane, collection string) string {
	f.t.Helper()
	_, body := f.raw("admin", "GET", entities(plane)+collection, "")
	var doc struct{ Data []struct{ ID string } }
	if err := json.Unmarshal([]byte(body), &doc); err != nil || len(doc.Data) != 1 {
		f.t.Fatalf("%s: %s", collection, body)
	}
	return doc.Data[0].ID
}

// TestApplicationsAreNotRenamedByTheirOldName: who names an application in the path means that one, whatever the body
// says, and only ids are those of a tool that could not know them.
func TestApplicationsAreNotRenamedByTheirOldName(t *testing.T) {
	f := setupPlanes(t)
	older := olderPath + "/" + f.plane("shop", cloud.TypeHybrid)
	const old = "10000000-0000-4000-8000-000000000001"
	body := func(name string) string {
		return `{"name":"` + name + `","client_id":"old","client_secret":"of ` + name + `","redirect_uris":["https://a.example/"]}`
	}
	for _, call := range []struct{ method, path, body, shows string }{
		{"PUT", "/consumers/anna", `{}`, `"anna"`},
		{"PUT", "/consumers/anna/oauth2/" + old, body("one"), old},
		{"PUT", "/consumers/anna/oauth2/new", body("two"), `"client_id":"new"`},
		{"GET", "/consumers/anna/oauth2/" + old, "", `"client_id":"old"`},
		{"GET", "/consumers/anna/oauth2/new", "", `"name":"two"`},
		{"GET", "/consumers/anna/oauth2/old", "", `"name":"one"`},
	} {
		if status, got := f.raw("admin", call.method, older+call.path, call.body); status != 200 || !strings.Contains(got, call.shows) {
			t.Errorf("%s %s: %d %s, want %s", call.method, call.path, status, got, call.shows)
		}
	}
}

// TestApplicationsAreTakenOverByTheirConsumerOnly: a client_id that another consumer has, and one that is
// written below the newer paths, is a conflict as before; so are other credentials.
func TestApplicationsAreTakenOverByTheirConsumerOnly(t *testing.T) {
	f := setupPlanes(t)
	a := f.plane("shop", cloud.TypeHybrid)
	const anna, bert = "10000000-0000-4000-8000-000000000001", "10000000-0000-4000-8000-000000000002"
	id := func(n string) string { return "20000000-0000-4000-8000-00000000000" + n }
	app := func(client, name string) string {
		return `{"name":"` + name + `","client_id":"` + client + `","client_secret":"secret of ` + client + `","redirect_uris":["https://a.example/"]}`
	}
	older := olderPath + "/" + a
	// The client_id of the second one looks like the id of an entity.
	const odd = "30000000-0000-4000-8000-000000000001"
	for _, call := range []struct {
		method, path, body string
		want               int
		shows              string
	}{
		{"PUT", older + "/consumers/" + anna, `{"username":"anna"}`, 200, ""},
		{"PUT", older + "/consumers/" + bert, `{"username":"bert"}`, 200, ""},
		{"PUT", older + "/consumers/" + anna + "/oauth2/" + id("1"), app("a", "one"), 200, id("1")},
		{"PUT", older + "/consumers/" + anna + "/oauth2/" + id("2"), app("a", "two"), 200, id("1")},
		{"PUT", older + "/consumers/anna/oauth2/" + id("3"), app("a", "three"), 200, `"name":"three"`},
		{"PUT", older + "/consumers/" + anna + "/oauth2/" + id("4"), app(odd, "odd"), 200, id("4")},
		{"PUT", older + "/consumers/" + anna + "/oauth2/" + id("5"), app(odd, "odd"), 200, id("4")},
		{"PUT", older + "/consumers/" + anna + "/oauth2/" + id("1"), app("a", "four"), 200, id("1")},
		{"PUT", older + "/consumers/" + anna + "/oauth2/" + id("4"), app("a", "moved"), 409, ""},
		{"PUT", older + "/consumers/" + bert + "/oauth2/" + id("6"), app("a", "stolen"), 409, ""},
		{"PUT", older + "/oauth2/" + id("6"), `{"name":"x","client_id":"a","client_secret":"z","redirect_uris":["https://a.example/"],"consumer":{"id":"` + anna + `"}}`, 409, ""},
		{"POST", older + "/consumers/" + anna + "/oauth2", app("a", "again"), 409, ""},
		{"PUT", entities(a) + "/consumers/" + anna + "/oauth2/" + id("6"), app("a", "again"), 409, ""},
		{"PUT", older + "/consumers/" + anna + "/key-auth/" + id("1"), `{"key":"k"}`, 200, id("1")},
		{"PUT", older + "/consumers/" + anna + "/key-auth/" + id("2"), `{"key":"k"}`, 409, ""},
		{"GET", older + "/consumers/" + anna + "/oauth2/a", "", 200, `"name":"four"`},
	} {
		if status, body := f.raw("admin", call.method, call.path, call.body); status != call.want || !strings.Contains(body, call.shows) {
			t.Errorf("%s %s %s: %d %s, want %d", call.method, call.path, call.body, status, body, call.want)
		}
	}
	if err := f.store.View(t.Context(), func(r store.Reader) error {
		list, err := r.List(gateway.Applications, store.Query{Scope: cloud.ScopeOf(a)})
		if len(list) != 2 {
			t.Errorf("there are %d applications", len(list))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
