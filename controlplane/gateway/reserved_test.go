package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/model"
)

// TestReservedHeaders: credentials are not taken from headers that the gateway writes or that
// belong to a connection.
func TestReservedHeaders(t *testing.T) {
	refused := map[string]string{}
	for _, name := range []string{
		"x-consumer-id", "X-Consumer-Username", "x_consumer_custom_id", "X-Authenticated-Scope", "x-authenticated-userid", "x-credential-identifier",
		"X-Anonymous-Consumer", "x-anonymous_consumer", "x-meshgate-oauth", "x-consumer-groups",
		"X-Envoy-External-Address", "x-envoy-external-address", "x-envoy-original-path", "x_forwarded-for", "X_Real_Ip",
	} {
		refused[name] = "must not be a header that the gateway sets: " + name
	}
	for _, name := range []string{"Connection", "te", "trailer", "Transfer-Encoding", "upgrade", "keep-alive", "proxy-connection", "Host", "content-length", "transfer_encoding"} {
		refused[name] = "must not be a header of the connection: " + name
	}
	for _, name := range []string{":path", ":authority", "a b", "a:b"} {
		refused[name] = "expected a header name"
	}
	for _, name := range []string{"authorization", "Proxy-Authorization", "x-api-key", "x-consumer", "apikey", "x-authentication", "hosts"} {
		refused[name] = ""
	}
	for name, want := range refused {
		raw, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Plugins.Schema.Process(model.OpCreate, decode(t, `{"name":"oauth2","config":{"enable_password_grant":true,"auth_header_name":`+string(raw)+`}}`), nil)
		check := func(what, path string, err error) {
			expected := map[string]string{}
			if want != "" {
				expected[path] = want
			}
			if diff := cmp.Diff(expected, violations(t, err)); diff != "" {
				t.Errorf("%s %q (-want +got):\n%s", what, name, diff)
			}
		}
		check("auth_header_name", "config.auth_header_name", err)
		_, err = Plugins.Schema.Process(model.OpCreate, decode(t, `{"name":"key-auth","config":{"key_names":["ok",`+string(raw)+`]}}`), nil)
		check("key_names", "config.key_names.2", err)
		if strings.HasPrefix(want, "expected") {
			continue
		}
		want = ""
		_, err = Plugins.Schema.Process(model.OpCreate, decode(t, `{"name":"key-auth","config":{"key_in_header":false,"key_names":[`+string(raw)+`]}}`), nil)
		check("key_names of queries", "config.key_names.1", err)
	}
}
