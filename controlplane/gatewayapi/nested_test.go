package gatewayapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/model"
)

// owners makes resources of every kind, each different from the others.
type owners struct {
	*fixture
	made int
}

// body returns a valid entity of a kind without optional references. n makes its unique
// values differ.
func (o *owners) body(k *model.Kind, n int) map[string]any {
	switch k {
	case gateway.Services:
		return map[string]any{"name": fmt.Sprint("s", n), "host": "h.example", "protocol": "https"}
	case gateway.Routes:
		return map[string]any{"name": fmt.Sprint("r", n), "paths": []any{fmt.Sprint("/", n)}}
	case gateway.Consumers:
		return map[string]any{"username": fmt.Sprint("c", n)}
	case gateway.Plugins:
		return map[string]any{"name": "request-termination", "instance_name": fmt.Sprint("p", n)}
	case gateway.Applications:
		return map[string]any{"name": "a", "client_id": fmt.Sprint("id", n), "redirect_uris": []any{"https://a.example/"}}
	case gateway.Tokens:
		return map[string]any{"access_token": fmt.Sprint("t", n), "expires_in": 10}
	case gateway.Keys:
		return map[string]any{"key": fmt.Sprint("k", n)}
	case gateway.Upstreams:
		return map[string]any{"name": fmt.Sprint("u", n, ".example")}
	case gateway.Targets:
		return map[string]any{"target": fmt.Sprintf("10.0.0.%d:80", n)}
	case gateway.Certificates:
		cert, key := admittest.Certificate(o.t)
		return map[string]any{"cert": cert, "key": key}
	case gateway.SNIs:
		return map[string]any{"name": fmt.Sprint("n", n, ".example")}
	}
	o.t.Fatalf("no body for %s", k.Name)
	return nil
}

// make creates a resource of a kind with the given references, and other resources that it
// needs. It returns its id and body.
func (o *owners) make(k *model.Kind, refs map[string]string) (id string, body map[string]any) {
	o.t.Helper()
	o.made++
	body = o.body(k, o.made)
	for i := range k.Schema.Fields {
		f := &k.Schema.Fields[i]
		if f.Type != model.Foreign {
			continue
		}
		to := refs[f.Name]
		if to == "" && f.Required {
			for _, c := range gatewayapi.Collections() {
				if c.Kind.Name == f.To {
					to, _ = o.make(c.Kind, nil)
				}
			}
		}
		if to != "" {
			body[f.Name] = map[string]any{"id": to}
		}
	}
	w := o.send("POST", "/"+k.Path, body)
	if id, _ = w["id"].(string); id == "" {
		o.t.Fatalf("POST /%s: %v", k.Path, w)
	}
	return id, body
}

func (o *owners) send(method, path string, body map[string]any) (answer map[string]any) {
	o.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		o.t.Fatal(err)
	}
	_ = json.Unmarshal(o.do(method, path, string(raw)).Body.Bytes(), &answer)
	return answer
}

// TestNestedWritesKeepToTheirOwner: below an owner, an entity of another owner does not
// exist, whatever the method, and whether it is named by id or by key.
func TestNestedWritesKeepToTheirOwner(t *testing.T) {
	byName := map[string]gatewayapi.Collection{}
	for _, c := range gatewayapi.Collections() {
		byName[c.Kind.Name] = c
	}
	for _, c := range gatewayapi.Collections() {
		for _, ref := range c.Kind.Refs {
			owner, ok := byName[ref.To]
			if !ok {
				continue
			}
			segment := c.Kind.Path
			if c.Nested != "" {
				segment = c.Nested
			}
			t.Run(owner.Kind.Path+"/"+segment+" by "+ref.Name, func(t *testing.T) {
				o := &owners{fixture: setup(t, nil)}
				mine, _ := o.make(owner.Kind, nil)
				yours, _ := o.make(owner.Kind, nil)
				child, body := o.make(c.Kind, map[string]string{ref.Name: mine})
				before := o.do("GET", "/"+c.Kind.Path+"/"+child, "").Body.String()
				keys := []string{child, strings.ToUpper(child)}
				if key := c.Kind.Schema.Key; key != "" && c.Kind.Schema.KeyUnder == "" {
					keys = append(keys, body[key].(string))
				}
				given := maps.Clone(body)
				delete(given, ref.Name)
				raw, err := json.Marshal(given)
				if err != nil {
					t.Fatal(err)
				}
				for _, key := range keys {
					path := "/" + owner.Kind.Path + "/" + yours + "/" + segment + "/" + key
					for _, method := range []string{"GET", "PATCH", "PUT", "DELETE"} {
						text := string(raw)
						if method == "GET" || method == "DELETE" {
							text = ""
						}
						if w := o.do(method, path, text); w.Code != 404 {
							t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
						}
					}
				}
				if after := o.do("GET", "/"+c.Kind.Path+"/"+child, "").Body.String(); after != before {
					t.Errorf("the entity was %s, is %s", before, after)
				}
				if w := o.do("PUT", "/"+owner.Kind.Path+"/"+mine+"/"+segment+"/"+child, string(raw)); w.Code != 200 {
					t.Errorf("the owner's own PUT: %d %s", w.Code, w.Body)
				}
			})
		}
	}
}

// TestNestedPutCreatesBelowItsOwner: a PUT creates a missing entity for the owner in the
// path, whatever the body says.
func TestNestedPutCreatesBelowItsOwner(t *testing.T) {
	f := setup(t, nil)
	f.do("POST", "/consumers", "username=bob")
	f.do("POST", "/consumers", "username=alice")
	w := f.do("PUT", "/consumers/bob/oauth2/new-app", `{"name":"n","redirect_uris":["https://a.example/"],"consumer":{"username":"alice"}}`)
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if w := f.do("GET", "/consumers/bob/oauth2/new-app", ""); w.Code != 200 {
		t.Errorf("below its owner: %d", w.Code)
	}
	if w := f.do("GET", "/consumers/alice/oauth2/new-app", ""); w.Code != 404 {
		t.Errorf("below another: %d", w.Code)
	}
}
