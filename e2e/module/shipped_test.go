package module

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/filter/contract"
)

const bearer = "Bearer " + goodToken

// identity returns what reached the upstream of identity headers, hand-over
// headers and credentials.
func identity(h http.Header) map[string]string {
	got := map[string]string{}
	for name, values := range h {
		switch name {
		case "User-Agent", "Accept-Encoding", "X-Request-Id", "X-Forwarded-For", "X-Forwarded-Proto",
			"X-Envoy-Expected-Rq-Timeout-Ms", "X-Envoy-External-Address", "X-Envoy-Internal", "Content-Length", "Content-Type":
		default:
			got[name] = strings.Join(values, ",")
		}
	}
	return got
}

var alice = map[string]string{
	"X-Consumer-Id": "consumer-1", "X-Consumer-Username": "alice", "X-Consumer-Custom-Id": "customer-42",
	"X-Credential-Identifier": "client-1", "X-Authenticated-Scope": "email,profile", "X-Authenticated-Userid": "user-1",
}

func TestShippedConfiguration(t *testing.T) {
	w := newWorld(t, options{})

	if a := w.get(t, "/healthz"); a.status != http.StatusOK {
		t.Errorf("unprotected route: %+v", a)
	}
	if a := w.get(t, "/"); a.status != http.StatusUnauthorized || a.header.Get("Www-Authenticate") == "" {
		t.Errorf("without a token: %+v", a)
	}
	if a := w.get(t, "/", "Authorization", "Bearer nobody"); a.status != http.StatusUnauthorized {
		t.Errorf("unknown token: %+v", a)
	}
	forged := []string{"Authorization", bearer,
		"X-Consumer-ID", "forged", "x_consumer_id", "forged", "x-consumer_custom-id", "forged",
		"X-Anonymous-Consumer", "true", "x-meshgate-oauth", "forged", "x_meshgate_proto", "forged"}
	if diff := cmp.Diff(alice, identity(w.get(t, "/some/path", forged...).seen(t).Headers)); diff != "" {
		t.Errorf("identity at the upstream (-want +got):\n%s", diff)
	}
	if err := w.db.Del(t.Context(), contract.RedisRecordKey("", contract.HashToken([]byte(goodToken)))).Err(); err != nil {
		t.Fatal(err)
	}
	if a := w.get(t, "/", "Authorization", bearer); a.status != http.StatusUnauthorized {
		t.Errorf("deleted token: %+v", a)
	}
}

// The filter removes forged headers, whatever the listener does.
func TestFilterStripsByItself(t *testing.T) {
	w := newWorld(t, options{edit: func(config object) {
		delete(manager(config), "early_header_mutation_extensions")
	}})
	header := []string{"Authorization", bearer,
		"X-Consumer-ID", "forged", "X-Consumer-ID", "twice", "x_consumer_id", "forged", "x-consumer_custom-id", "forged",
		"X-Anonymous-Consumer", "true", "x_meshgate_oauth", "forged", "X-Meshgate-Client", "forged", "X-Consumer-Identity", "forged", "X-Consumers", "kept"}
	want := map[string]string{"X-Consumers": "kept"}
	for k, v := range alice {
		want[k] = v
	}
	if diff := cmp.Diff(want, identity(w.get(t, "/", header...).seen(t).Headers)); diff != "" {
		t.Errorf("identity at the upstream (-want +got):\n%s", diff)
	}
}

// A chain that issues on a table without a route to the OAuth server: the request
// is refused, and what the filter has written for that server reaches nobody.
func TestIssuingWithoutOAuthRouteIsRefused(t *testing.T) {
	for _, oauth := range []object{
		nil,
		{"match": object{"prefix": "/", "headers": []any{object{"name": contract.HeaderOAuthPlugin, "present_match": true}}}, "route": object{"cluster": "upstream"}},
		{"match": object{"prefix": "/", "headers": []any{object{"name": contract.HeaderOAuthPlugin, "present_match": true}}}, "direct_response": object{"status": 200}},
	} {
		w := newWorld(t, options{edit: func(config object) {
			exampleChain(config)["issues"] = true
			chainAsText(config)
			if oauth != nil {
				addRoute(config, oauth)
			}
		}})
		for _, path := range []string{"/api/oauth2/token", "/oauth2/authorize"} {
			a := w.do(t, w.request(t.Context(), t, http.MethodPost, path, http.NoBody))
			if a.status != http.StatusServiceUnavailable || a.header.Get("X-Upstream") != "" {
				t.Errorf("%s with %v: %+v", path, oauth, a)
			}
		}
		if n := w.stat(t, "cluster.upstream.upstream_rq_total"); n != 0 {
			t.Errorf("the upstream saw %d requests", n)
		}
		eventually(t, "others are served", func() bool { return w.get(t, "/", "Authorization", bearer).status == http.StatusOK })
	}
}

// Trailers say as little about a client as its headers may.
func TestTrailersAreCleaned(t *testing.T) {
	w := newWorld(t, options{edit: func(config object) {
		chainAsText(config)
		manager(config)["http_protocol_options"] = object{"enable_trailers": true}
		at(config, "static_resources", "clusters", 0).(object)["typed_extension_protocol_options"] = object{
			"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": object{
				"@type":                "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
				"explicit_http_config": object{"http2_protocol_options": object{}},
			},
		}
	}})
	http2 := &http.Transport{Protocols: new(http.Protocols)}
	http2.Protocols.SetUnencryptedHTTP2(true)
	for name, client := range map[string]*http.Client{"HTTP/1": w.client, "HTTP/2": newClient(t, http2)} {
		t.Run(name, func(t *testing.T) {
			clean := *w
			clean.client = client
			for _, size := range []int{1, 30_000} {
				body := io.MultiReader(strings.NewReader(strings.Repeat("x", size))) // hides the length
				r := w.request(t.Context(), t, http.MethodPost, "/", body, "Authorization", bearer)
				r.Trailer = http.Header{
					"X-Consumer-Id": {"forged"}, "x_consumer_username": {"forged"}, "X-Credential_Identifier": {"forged"},
					"X-Meshgate-Oauth": {"forged"}, "x_meshgate_client": {"forged"}, "Forwarded": {"for=192.0.2.9"}, "X-Kept": {"kept"},
				}
				seen := clean.do(t, r).seen(t)
				got := identity(seen.Trailer)
				for name, value := range got {
					if value == "" { // announced, but not sent
						delete(got, name)
					}
				}
				if diff := cmp.Diff(map[string]string{"X-Kept": "kept"}, got); diff != "" {
					t.Errorf("%d bytes: trailers at the upstream (-want +got):\n%s", size, diff)
				}
				if diff := cmp.Diff("consumer-1", seen.Headers.Get("X-Consumer-Id")); diff != "" {
					t.Errorf("%d bytes: %s", size, diff)
				}
			}
		})
	}
}

// Where nothing issues, an issuing endpoint's path is as protected as any other.
func TestShippedConfigurationIssuesNothing(t *testing.T) {
	w := newWorld(t, options{})
	for _, path := range []string{"/oauth2/token", "/x/oauth2/authorize/", "/a//oauth2/./token"} {
		if a := w.do(t, w.request(t.Context(), t, http.MethodPost, path, http.NoBody)); a.status != http.StatusUnauthorized {
			t.Errorf("%s without a token: %+v", path, a)
		}
		got := identity(w.do(t, w.request(t.Context(), t, http.MethodPost, path, http.NoBody, "Authorization", bearer)).seen(t).Headers)
		if diff := cmp.Diff(alice, got); diff != "" {
			t.Errorf("%s at the upstream (-want +got):\n%s", path, diff)
		}
	}
}

// Who comes to the shipped configuration cannot say from where, and the
// administration of the proxy is for this machine alone.
func TestShippedConfigurationIsGuarded(t *testing.T) {
	w := newWorld(t, options{})
	claims := []string{"Authorization", bearer}
	for _, name := range []string{
		"X-Forwarded-For", "x_forwarded_for", "X-Real-IP", "x_real_ip", "X-Envoy-External-Address", "X-Forwarded-Host", "X-Forwarded-Port",
		"X-Forwarded-Path", "X-Forwarded-Prefix", "X-Forwarded-Proto", "x_forwarded-host", "Forwarded",
	} {
		claims = append(claims, name, "192.0.2.66")
	}
	seen := w.get(t, "/", claims...).seen(t)
	for name, values := range seen.Headers {
		if strings.Contains(strings.Join(values, ","), "192.0.2.66") {
			t.Errorf("upstream got %s: %q", name, values)
		}
	}
	data, err := os.ReadFile(filepath.Join(root, "envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config object
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	for where, want := range map[string]string{
		"admin":    "127.0.0.1",
		"gateway":  "0.0.0.0",
		"upstream": "127.0.0.1",
	} {
		address := map[string]any{
			"admin":    at(config, "admin", "address"),
			"gateway":  at(config, "static_resources", "listeners", 0, "address"),
			"upstream": at(config, "static_resources", "clusters", 0, "load_assignment", "endpoints", 0, "lb_endpoints", 0, "endpoint", "address"),
		}[where]
		if got := at(address, "socket_address", "address"); got != want {
			t.Errorf("%s is at %v, want %s", where, got, want)
		}
	}
	if n := len(at(config, "static_resources", "listeners").([]any)); n != 1 {
		t.Errorf("%d listeners", n)
	}
}

// A request for an issuing endpoint goes to the OAuth server with what that
// needs to know, and with nothing that the client claims.
func TestIssuingEndpointGoesToOAuthServer(t *testing.T) {
	w := newWorld(t, options{oauth: echoAs("oauth"), edit: chainAsText})
	r := w.request(t.Context(), t, http.MethodPost, "/api/oauth2/token", http.NoBody,
		"x-meshgate-service", "forged", "x-meshgate-client", "192.0.2.1", "x-meshgate-scheme", "https")
	want := map[string]string{
		"X-Meshgate-Oauth": pluginID, "X-Meshgate-Service": serviceID,
		"X-Meshgate-Scheme": "http", "X-Meshgate-Client": "127.0.0.1",
	}
	if diff := cmp.Diff(want, identity(w.do(t, r).seen(t).Headers)); diff != "" {
		t.Errorf("hand-over headers (-want +got):\n%s", diff)
	}
	a := w.get(t, "/", "x-meshgate-oauth", pluginID)
	if a.status != http.StatusUnauthorized {
		t.Errorf("client chose the OAuth route itself: %+v", a)
	}
}
