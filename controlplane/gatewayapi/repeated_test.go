package gatewayapi_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestMembersGivenTwice: one of two values would be dropped silently, and a proxy or a person
// may have checked that one.
func TestMembersGivenTwice(t *testing.T) {
	f := setup(t, nil)
	f.must("PUT", "/services/s", `{"host":"h"}`)
	for _, tc := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"PUT", "/services/s", `{"host":"a","host":"b"}`, 400, `"fields":{"host":"is given twice"}`},
		{"PATCH", "/services/s", `{"port":1,"host":"a","port":2}`, 400, `"fields":{"port":"is given twice"}`},
		{"POST", "/plugins", `{"name":"oauth2","config":{"scopes":["a"],"mandatory_scope":true,"mandatory_scope":false}}`, 400, `"config":{"mandatory_scope":"is given twice"}`},
		{"POST", "/schemas/services/validate", `{"host":"a","host":"b"}`, 400, "host: is given twice"},
		{"PUT", "/services/s?fieldValidation=ignore", `{"host":"a","host":"b"}`, 200, `"host":"b"`},
		{"PUT", "/services/s?fieldValidation=warn", `{"host":"a","host":"b"}`, 200, `"warnings":["host: is given twice"]`},
		{"PUT", "/services/s", "host=a&host=b", 400, `"fields":{"host":`},
		{"PUT", "/services/s?fieldValidation=ignore", "host=a&host=b", 400, `"fields":{"host":`},
		{"PUT", "/services/s", "host=a&port=1&port=2", 400, `"fields":{"port":`},
		{"PUT", "/services/s", "host=a&enabled=true&enabled=true", 400, `"fields":{"enabled":`},
		{"PUT", "/services/s", "host=a&host.x=b", 400, `"fields":{"host":"is given twice"}`},
		{"PUT", "/services/s", "host=a&url=http://b/&url=http://c/", 400, `"fields":{"url":`},
		{"PUT", "/services/s", "host=a&path=%2Fx&path=%2Fy", 400, `"fields":{"path":`},
		{"POST", "/routes", "paths=/a&service.id=00000001-0000-4000-8000-000000000001&service.id=00000001-0000-4000-8000-000000000002", 400, `"service":`},
		{"POST", "/oauth2_tokens", "credential_id=00000001-0000-4000-8000-000000000001&credential_id=00000001-0000-4000-8000-000000000002&expires_in=1", 400, `credential`},
		{"POST", "/plugins", "name=oauth2&config.scopes=a&config.mandatory_scope=true&config.mandatory_scope=false", 400, `"mandatory_scope":"expected a boolean"`},
		{"POST", "/plugins", "name=key-auth&name=oauth2", 400, `"name":`},
		{"PUT", "/services/s", "host=a&tags=x&tags=y", 200, `"tags":["x","y"]`},
	} {
		w := f.do(tc.method, tc.path, tc.body)
		if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.want) || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %s %s: %d %s, want %s", tc.method, tc.path, tc.body, w.Code, w.Body, tc.want)
		}
	}
}
