// Package tooltest simulates declarative tools that other people have: they do to the administration API
// what was seen of them, in their mode for a gateway and in that for a control plane in the cloud.
package tooltest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Tool uses the API as declarative tools do. It reads everything, completes its file with the
// defaults in the schemas, writes what differs under its own ids, and deletes the rest.
type Tool struct {
	T testing.TB
	// Do sends a request to a path below the control plane.
	Do func(method, path, body string) *httptest.ResponseRecorder
	// Cloud is the mode for control planes in the cloud. OAuth applications are not read there, so each
	// run makes them under new ids.
	Cloud bool
	// Workspace, if set, is the workspace that the tool is told: it asks for it, and puts its name before
	// every path but that of the API itself.
	Workspace string
	Tags      string
	// Requests are the writes of the last sync.
	Requests []string
}

// Wanted is one entity in the tool's file.
type Wanted struct {
	// Collection is where it is listed, Path where it is written (with the owner's id), and
	// Key the field by which it is matched.
	Collection, Path, Key string
	// Schema is the schema with its defaults; empty if the tool does not read it.
	Schema string
	Body   map[string]any
}

// applications is the collection that the tool does not read in the cloud.
const applications = "oauth2"

// fatal lists the collections that the tool cannot do without; those in tolerated may be
// missing.
var (
	fatal     = []string{"services", "routes", "plugins", "consumers", "upstreams", "certificates", "snis"}
	tolerated = []string{
		"consumer_groups", "ca_certificates", "vaults", "key-auths", "hmac-auths", "jwts", "basic-auths", applications, "acls", "mtls-auths", "filter-chains",
	}
)

func offered(path string) bool {
	return slices.ContainsFunc(gatewayapi.Collections(), func(c gatewayapi.Collection) bool { return c.Kind.Path == path })
}

func (t *Tool) json(method, path string, body any, statuses ...int) map[string]any {
	t.T.Helper()
	text := ""
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			t.T.Fatal(err)
		}
		text = string(raw)
	}
	if t.Workspace != "" && path != "/" {
		path = "/" + t.Workspace + path
	}
	w := t.Do(method, path, text)
	if !slices.Contains(statuses, w.Code) {
		t.T.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	var m map[string]any
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil {
			t.T.Fatalf("%s %s: %s", method, path, w.Body)
		}
	}
	return m
}

// list reads a collection to its end.
func (t *Tool) list(collection string, statuses ...int) (all []map[string]any) {
	t.T.Helper()
	query := "?size=1000&tags=" + url.QueryEscape(t.Tags)
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

// Sync makes the API agree with the file, and returns the numbers of writes and deletions.
func (t *Tool) Sync(file []Wanted) (writes, deletes int) {
	t.T.Helper()
	t.Requests = nil
	state, keep := t.read(), map[string]bool{}
	for _, w := range file {
		body := maps.Clone(w.Body)
		t.complete(w.Schema, body)
		body["tags"] = []any{t.Tags}
		id := t.idOf(w, body, state[w.Collection])
		keep[w.Collection+"/"+id] = true
		body["id"] = id
		if differs(body, state[w.Collection], id) {
			t.Requests = append(t.Requests, "PUT "+w.Path+id)
			got := t.json("PUT", w.Path+id, body, 200, 201)["id"]
			// The tool takes any id as that of the entity; without one it fails.
			if text, _ := got.(string); got != id && (!t.perpetual(w) || !model.IsUUID(text)) {
				t.T.Fatalf("PUT %s answered the id %v", w.Path+id, got)
			}
			writes++
		}
	}
	for _, c := range slices.Backward(slices.Concat(fatal, tolerated)) {
		for _, is := range state[c] {
			if path := c + "/" + is["id"].(string); !keep[path] {
				t.Requests = append(t.Requests, "DELETE /"+path)
				t.json("DELETE", "/"+path, nil, 204)
				deletes++
			}
		}
	}
	return writes, deletes
}

// perpetual reports whether each run makes an entity anew.
func (t *Tool) perpetual(w Wanted) bool { return t.Cloud && w.Collection == applications }

// read reads all collections.
func (t *Tool) read() map[string][]map[string]any {
	t.T.Helper()
	if !t.Cloud {
		if v, _ := t.json("GET", "/", nil, 200)["version"].(string); !strings.HasPrefix(v, "3.") || len(strings.Split(v, ".")) != 3 {
			t.T.Fatalf("version %q", v)
		}
	}
	if t.Workspace != "" {
		if id, _ := t.json("GET", "/workspaces/"+t.Workspace, nil, 200)["id"].(string); !model.IsUUID(id) {
			t.T.Fatalf("the id of workspace %s is %q", t.Workspace, id)
		}
	}
	state := map[string][]map[string]any{}
	for _, c := range fatal {
		if offered(c) {
			state[c] = t.list(c, 200)
		}
	}
	for _, c := range tolerated {
		if !t.Cloud || c != applications {
			state[c] = t.list(c, 200, 404)
		}
	}
	for _, u := range state["upstreams"] {
		t.list("upstreams/"+u["id"].(string)+"/targets", 200)
	}
	return state
}

// complete adds the defaults of a schema to an entity. In the cloud the tool reads JSON Schemas, except
// for plugins.
func (t *Tool) complete(schema string, body map[string]any) {
	t.T.Helper()
	switch {
	case schema == "":
	case t.Cloud && !strings.HasPrefix(schema, "plugins/"):
		fillProperties(t.json("GET", "/v1/schemas/json/"+strings.TrimSuffix(schema, "s"), nil, 200, 404), body)
	default:
		fields, _ := t.json("GET", "/schemas/"+schema, nil, 200)["fields"].([]any)
		fill(fields, body)
	}
}

// fillProperties adds the defaults of a JSON Schema to an entity.
func fillProperties(schema, body map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	for name, d := range properties {
		if v, ok := d.(map[string]any)["default"]; ok && body[name] == nil {
			body[name] = v
		}
	}
}

// idOf returns the id of the entity that is matched, else the one in the file, or a new one for what the
// tool has not read.
func (t *Tool) idOf(w Wanted, body map[string]any, state []map[string]any) string {
	for _, is := range state {
		if is[w.Key] == body[w.Key] {
			return is["id"].(string)
		}
	}
	if t.perpetual(w) {
		return uuid.NewString()
	}
	return body["id"].(string)
}

// differs compares the Wanted with the existing entity, field by field. It ignores fields
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

// File is a file of the tool.
func File() []Wanted {
	const alice, svc, route = "a1000000-0000-4000-8000-000000000001", "51000000-0000-4000-8000-000000000001", "71000000-0000-4000-8000-000000000001"
	id := func(n int) string { return fmt.Sprintf("c1000000-0000-4000-8000-%012d", n) }
	consumer := map[string]any{"id": alice, "username": "alice"}
	return []Wanted{
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
