package cloudapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"testing"

	"github.com/meshgate/meshgate/controlplane/cloud"
)

// defaultsIn reads a JSON Schema as the declarative tool does in its cloud mode: it goes into objects that
// do not forbid other properties, and takes the default of everything else; where there is none, null.
func defaultsIn(schema map[string]any) map[string]any {
	out := map[string]any{}
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		p := property.(map[string]any)
		open, limited := p["additionalProperties"]
		if more, _ := open.(bool); p["type"] == "object" && (!limited || more) {
			out[name] = defaultsIn(p)
			continue
		}
		out[name] = p["default"]
	}
	return out
}

// defaultsOf reads a description of /schemas, from which the tool has them where it is not in that mode.
func defaultsOf(described map[string]any) map[string]any {
	out := map[string]any{}
	list, _ := described["fields"].([]any)
	for _, one := range list {
		for name, field := range one.(map[string]any) {
			f := field.(map[string]any)
			if f["type"] == "record" {
				out[name] = defaultsOf(f)
				continue
			}
			out[name] = f["default"]
		}
	}
	return out
}

// document reads a JSON document.
func (f *planeFixture) document(path string) (doc map[string]any) {
	f.t.Helper()
	status, body := f.raw("admin", "GET", path, "")
	if err := json.Unmarshal([]byte(body), &doc); status != 200 || err != nil {
		f.t.Fatalf("%s: %d %s", path, status, body)
	}
	return doc
}

// TestToolDefaults: the tool fills in the same defaults in both of its modes, and an entity that it has
// completed is stored as it is, so that it finds nothing to change afterwards.
func TestToolDefaults(t *testing.T) {
	f := setupPlanes(t)
	plane := olderPath + "/" + f.plane("shop", cloud.TypeHybrid)
	for name, collection := range map[string]string{"service": "services", "route": "routes", "upstream": "upstreams", "target": "targets"} {
		schema := f.document(plane + "/v1/schemas/json/" + name)
		got, want := defaultsIn(schema), defaultsOf(f.document(plane+"/schemas/"+collection))
		for key, value := range want {
			if !reflect.DeepEqual(got[key], value) {
				t.Errorf("%s: the default of %s is %v, want %v", name, key, got[key], value)
			}
		}
		for key, value := range got {
			if _, known := want[key]; !known && value != nil {
				t.Errorf("%s: the default of %s is %v, and is unknown elsewhere", name, key, value)
			}
		}
		if schema["type"] != "object" || schema["additionalProperties"] != false {
			t.Errorf("%s: %v", name, schema)
		}
	}
	service := defaultsIn(f.document(plane + "/v1/schemas/json/service"))
	if got := fmt.Sprintf("%v %v %v %v", service["protocol"], service["port"], service["retries"], service["connect_timeout"]); got != "http 80 5 60000" {
		t.Errorf("a service has %s", got)
	}
	if route := defaultsIn(f.document(plane + "/v1/schemas/json/route")); route["service"] != nil || fmt.Sprint(route["protocols"]) != "[http https]" {
		t.Errorf("a route has %v", route)
	}
	const id = "10000000-0000-4000-8000-000000000001"
	for name, given := range map[string]map[string]any{"service": {"name": "s", "host": "h.test"}, "upstream": {"name": "u"}} {
		body := defaultsIn(f.document(plane + "/v1/schemas/json/" + name))
		maps.Copy(body, given)
		body["id"] = id
		maps.DeleteFunc(body, func(_ string, v any) bool { return v == nil })
		raw, _ := json.Marshal(body)
		if status, answer := f.raw("admin", "PUT", plane+"/"+name+"s/"+id, string(raw)); status != 200 {
			t.Fatalf("%s: %d %s", raw, status, answer)
		}
		stored := f.document(plane + "/" + name + "s/" + id)
		for key, value := range body {
			if !within(value, stored[key]) {
				t.Errorf("%s of a %s is stored as %v, and was %v", key, name, stored[key], value)
			}
		}
	}
}

// within reports whether a stored value is what was sent, where null and absent are the same.
func within(sent, stored any) bool {
	record, ok := sent.(map[string]any)
	if !ok {
		return reflect.DeepEqual(sent, stored)
	}
	is, ok := stored.(map[string]any)
	for key, value := range record {
		ok = ok && within(value, is[key])
	}
	return ok
}

// TestJSONSchemas: every kind has one below each path of a control plane, and nothing else has.
func TestJSONSchemas(t *testing.T) {
	f := setupPlanes(t)
	a := f.plane("shop", cloud.TypeHybrid)
	for _, at := range []string{olderPath + "/" + a, entities(a)} {
		for _, name := range []string{"service", "route", "upstream", "target", "consumer", "plugin", "certificate", "sni"} {
			if doc := f.document(at + "/v1/schemas/json/" + name); len(doc["properties"].(map[string]any)) < 2 {
				t.Errorf("%s: %v", name, doc)
			}
		}
		for _, name := range []string{"services", "unknown", "Service", "%2e%2e"} {
			if status, body := f.raw("admin", "GET", at+"/v1/schemas/json/"+name, ""); status != 404 {
				t.Errorf("%s: %d %s", name, status, body)
			}
		}
		if status, _ := f.raw("", "GET", at+"/v1/schemas/json/service", ""); status != 401 {
			t.Errorf("without a token: %d", status)
		}
	}
}
