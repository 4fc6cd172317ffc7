package gatewayapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/gatewayapi"
)

// tool uses the API as declarative tools do. It reads everything, completes its file with the
// defaults in the schemas, writes what differs under its own ids, and deletes the rest.
type tool struct {
	*fixture
	tags string
	// requests are the writes of the last sync.
	requests []string
}

// wanted is one entity in the tool's file.
type wanted struct {
	// collection is where it is listed, path where it is written (with the owner's id), and
	// key the field by which it is matched.
	collection, path, key string
	// schema is the schema with its defaults; empty if the tool does not read it.
	schema string
	body   map[string]any
}

// fatal lists the collections that the tool cannot do without; those in tolerated may be
// missing.
var (
	fatal     = []string{"services", "routes", "plugins", "consumers", "upstreams", "certificates", "snis"}
	tolerated = []string{
		"consumer_groups", "ca_certificates", "vaults", "key-auths", "hmac-auths", "jwts", "basic-auths", "oauth2", "acls", "mtls-auths", "filter-chains",
	}
)

func offered(path string) bool {
	return slices.ContainsFunc(gatewayapi.Collections(), func(c gatewayapi.Collection) bool { return c.Kind.Path == path })
}

func (t *tool) json(method, path string, body any, statuses ...int) map[string]any {
	t.t.Helper()
	text := ""
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			t.t.Fatal(err)
		}
		text = string(raw)
	}
	w := t.do(method, path, text)
	if !slices.Contains(statuses, w.Code) {
		t.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	var m map[string]any
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil {
			t.t.Fatalf("%s %s: %s", method, path, w.Body)
		}
	}
	return m
}

// list reads a collection to its end.
func (t *tool) list(collection string, statuses ...int) (all []map[string]any) {
	t.t.Helper()
	query := "?size=1000&tags=" + url.QueryEscape(t.tags)
	for next := "/" + collection + query; next != ""; {
		p := t.json("GET", next, nil, statuses...)
		data, _ := p["data"].([]any)
		for _, e := range data {
			all = append(all, e.(map[string]any))
		}
		if next = ""; p["next"] != nil {
			next = "/" + collection + query + "&offset=" + url.QueryEscape(p["offset"].(string))
		}
	}
	return all
}

// fill adds the defaults of a schema to an entity.
func fill(fields []any, body map[string]any) {
	for _, one := range fields {
		for name, d := range one.(map[string]any) {
			described := d.(map[string]any)
			if nested, ok := described["fields"].([]any); ok && described["type"] == "record" {
				record, _ := body[name].(map[string]any)
				if record == nil {
					record = map[string]any{}
				}
				fill(nested, record)
				body[name] = record
			} else if v, ok := described["default"]; ok && body[name] == nil {
				body[name] = v
			}
		}
	}
}

// sync makes the API agree with the file, and returns the numbers of writes and deletions.
func (t *tool) sync(file []wanted) (writes, deletes int) {
	t.t.Helper()
	t.requests = nil
	if v, _ := t.json("GET", "/", nil, 200)["version"].(string); !strings.HasPrefix(v, "3.") || len(strings.Split(v, ".")) != 3 {
		t.t.Fatalf("version %q", v)
	}
	state := map[string][]map[string]any{}
	for _, c := range fatal {
		if offered(c) {
			state[c] = t.list(c, 200)
		}
	}
	for _, c := range tolerated {
		state[c] = t.list(c, 200, 404)
	}
	for _, u := range state["upstreams"] {
		t.list("upstreams/"+u["id"].(string)+"/targets", 200)
	}
	keep := map[string]bool{}
	for _, w := range file {
		body := maps.Clone(w.body)
		if w.schema != "" {
			fields, _ := t.json("GET", "/schemas/"+w.schema, nil, 200)["fields"].([]any)
			fill(fields, body)
		}
		body["tags"] = []any{t.tags}
		id := body["id"].(string)
		for _, is := range state[w.collection] {
			if is[w.key] == body[w.key] {
				id = is["id"].(string)
			}
		}
		keep[w.collection+"/"+id] = true
		body["id"] = id
		if differs(body, state[w.collection], id) {
			t.requests = append(t.requests, "PUT "+w.path+id)
			if got := t.json("PUT", w.path+id, body, 200, 201); got["id"] != id {
				t.t.Fatalf("PUT %s answered the id %v", w.path+id, got["id"])
			}
			writes++
		}
	}
	for _, c := range slices.Backward(slices.Concat(fatal, tolerated)) {
		for _, is := range state[c] {
			if path := c + "/" + is["id"].(string); !keep[path] {
				t.requests = append(t.requests, "DELETE /"+path)
				t.json("DELETE", "/"+path, nil, 204)
				deletes++
			}
		}
	}
	return writes, deletes
}

// differs compares the wanted with the existing entity, field by field. It ignores fields
// that the tool does not name.
func differs(body map[string]any, state []map[string]any, id string) bool {
	for _, is := range state {
		if is["id"] != id {
			continue
		}
		return !within(body, is)
	}
	return true
}

// within reports whether is contains all of want. References are compared by id.
func within(want, is any) bool {
	w, ok := want.(map[string]any)
	if !ok {
		raw, _ := json.Marshal(want)
		var plain any
		_ = json.Unmarshal(raw, &plain)
		return reflect.DeepEqual(plain, is)
	}
	i, _ := is.(map[string]any)
	for name, v := range w {
		if got, known := i[name]; known && !within(v, got) || !known && name != "username" {
			return false
		}
	}
	return true
}

func toolFile() []wanted {
	const alice, svc, route = "a1000000-0000-4000-8000-000000000001", "51000000-0000-4000-8000-000000000001", "71000000-0000-4000-8000-000000000001"
	id := func(n int) string { return fmt.Sprintf("c1000000-0000-4000-8000-%012d", n) }
	consumer := map[string]any{"id": alice, "username": "alice"}
	return []wanted{
		{"consumers", "/consumers/", "username", "consumers", map[string]any{"id": alice, "username": "alice", "custom_id": "c-1"}},
		{"oauth2", "/consumers/" + alice + "/oauth2/", "client_id", "", map[string]any{
			"id": id(1), "name": "app1", "client_id": "app1", "client_secret": "s3cret", "client_type": "confidential", "hash_secret": false,
			"redirect_uris": []any{"https://app.example/cb"}, "consumer": consumer,
		}},
		{"key-auths", "/consumers/" + alice + "/key-auth/", "key", "", map[string]any{"id": id(2), "key": "k-1", "consumer": consumer}},
		{"services", "/services/", "name", "services", map[string]any{"id": svc, "name": "svc-a", "host": "a.example", "protocol": "http", "port": 80}},
		{"routes", "/routes/", "name", "routes", map[string]any{"id": route, "name": "route-a", "paths": []any{"/a"}, "service": map[string]any{"id": svc}}},
		{"plugins", "/plugins/", "id", "plugins/oauth2", map[string]any{
			"id": id(3), "name": "oauth2", "route": map[string]any{"id": route},
			"config": map[string]any{"enable_client_credentials": true, "provision_key": "k", "scopes": []any{"email"}, "anonymous": nil},
		}},
		{"plugins", "/plugins/", "id", "plugins/key-auth", map[string]any{"id": id(4), "name": "key-auth", "service": map[string]any{"id": svc}}},
		{"plugins", "/plugins/", "id", "plugins/request-termination", map[string]any{
			"id": id(5), "name": "request-termination", "consumer": consumer, "config": map[string]any{"status_code": 401},
		}},
	}
}

// TestDeclarativeTool syncs a file into an empty API, then again without a change, and then
// with one entity changed and one removed. Other entities are left alone.
func TestDeclarativeTool(t *testing.T) {
	f := setup(t, nil)
	f.do("POST", "/consumers", `{"username":"somebody","tags":["by-hand"]}`)
	tl := &tool{fixture: f, tags: "managed"}
	file := toolFile()
	if writes, deletes := tl.sync(file); writes != len(file) || deletes != 0 {
		t.Fatalf("first sync: %d writes, %d deletes: %v", writes, deletes, tl.requests)
	}
	if writes, deletes := tl.sync(file); writes != 0 || deletes != 0 {
		t.Fatalf("second sync: %d writes, %d deletes: %v", writes, deletes, tl.requests)
	}
	file[3].body["port"] = 8080
	file = slices.Delete(file, 2, 3)
	tl.sync(file)
	want := []string{"PUT /services/" + file[2].body["id"].(string), "DELETE /key-auths/c1000000-0000-4000-8000-000000000002"}
	if diff := cmp.Diff(want, tl.requests); diff != "" {
		t.Errorf("third sync (-want +got):\n%s", diff)
	}
	if _, deletes := tl.sync(nil); deletes != len(file) {
		t.Errorf("emptying: %d deletes: %v", deletes, tl.requests)
	}
	if w := f.do("GET", "/consumers/somebody", ""); w.Code != 200 {
		t.Errorf("an entity without the tool's tag is gone: %d", w.Code)
	}
}
