package module

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/filtertest"
)

// authzExample is the configuration of an Envoy that asks an authorization service.
const authzExample = "docs/examples/authz/envoy.yaml"

// startAuthz runs the authorization service on a Redis, and returns the path of its socket.
func startAuthz(t *testing.T, redisPort int) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "authz") // the name of a test may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	settings := filepath.Join(dir, "settings.json")
	data, err := json.Marshal(contract.Settings{Redis: &contract.RedisSettings{URL: fmt.Sprintf("redis://127.0.0.1:%d", redisPort)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(settings, data, 0o600); err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "authz.sock")
	start(t, "authorization service is ready", exec.Command(filepath.Join(root, "bin", "meshgate"), "authz",
		"--listen", contract.UnixPrefix+socket, "--settings", settings))
	return socket
}

// ask has a route ask about a chain. Bodies are sent where the chain looks into them, as much of
// them as a decision reads and a byte more. Gateways of meshgate send less.
func ask(route object, chain string) {
	check := object{"context_extensions": object{contract.AuthzChain: chain, contract.AuthzIssue: "true"}}
	if strings.Contains(chain, `"in_body":true`) {
		check["context_extensions"].(object)[contract.AuthzBody] = "true"
		check["with_request_body"] = object{"max_request_bytes": contract.MaxBody + 1, "allow_partial_message": true, "pack_as_bytes": true}
		route["request_body_buffer_limit"] = 2 * contract.MaxBody
	}
	route["typed_per_filter_config"] = object{"envoy.filters.http.ext_authz": object{
		"@type":          "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute",
		"check_settings": check,
	}}
}

// hidesInBody reports whether a chain hides credentials in bodies, which an authorization
// service refuses.
func hidesInBody(chain string) bool {
	parsed, err := contract.ParseChain([]byte(chain))
	return err == nil && slices.ContainsFunc(parsed.Plugins, func(p contract.Plugin) bool {
		return p.OAuth2 != nil && p.OAuth2.InBody && p.OAuth2.HideCredentials || p.KeyAuth != nil && p.KeyAuth.InBody && p.KeyAuth.HideCredentials
	})
}

// The behaviour that all adapters share, through the authorization service, also with an
// authority that is away. A chain that it cannot honour refuses every request.
func TestBehaviourTableOfTheAuthorizationService(t *testing.T) {
	for name, down := range map[string]bool{"there": false, "authority away": true} {
		t.Run(name, func(t *testing.T) { runTableOfAuthz(t, down) })
	}
}

func runTableOfAuthz(t *testing.T, down bool) {
	cases := slices.DeleteFunc(filtertest.Cases(), func(c filtertest.Case) bool { return c.Down != down })
	for i := range cases {
		if hidesInBody(cases[i].Chain) {
			cases[i].Want = filtertest.Want{Outcome: filtertest.Refused, Status: http.StatusServiceUnavailable,
				Body: `{"message":"The configuration of this route cannot be used"}`}
			if cases[i].Request.HTTP2 && strings.Contains(fmt.Sprint(cases[i].Request.Headers), "application/grpc") {
				cases[i].Want.GRPCStatus, cases[i].Want.GRPCMessage = "14", "Unavailable"
			}
		}
	}
	w := newWorld(t, options{authz: true, away: down, oauth: echoAs("oauth"), edit: func(config object) {
		addHosts(config, cases, ask)
		manager(config)["upgrade_configs"] = []any{object{"upgrade_type": "websocket"}}
	}})
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	http2 := newClient(t, tr)
	for i := range cases {
		runCase(t, w, http2, &cases[i], 1)
	}
}

// TestExampleRemovesWhatIsReserved holds what the example removes, of headers and of trailers,
// against the list of what clients may not say.
func TestExampleRemovesWhatIsReserved(t *testing.T) {
	config := shipped(t, authzExample, nil)
	for what, mutations := range map[string]any{
		"headers":  at(manager(config), "early_header_mutation_extensions", 0, "typed_config", "mutations"),
		"trailers": at(manager(config), "http_filters", 0, "typed_config", "mutations", "request_trailers_mutations"),
	} {
		var removed []*regexp.Regexp
		for _, m := range mutations.([]any) {
			if name, ok := m.(object)["remove"]; ok {
				removed = append(removed, regexp.MustCompile("^"+regexp.QuoteMeta(name.(string))+"$"))
			}
			if match, ok := m.(object)["remove_on_match"]; ok {
				removed = append(removed, regexp.MustCompile("^(?:"+at(match, "key_matcher", "safe_regex", "regex").(string)+")$"))
			}
		}
		for _, r := range contract.ReservedHeaders {
			name := r.Name
			if r.Family {
				name += "a_b"
			}
			for _, spelling := range []string{name, strings.ReplaceAll(name, "-", "_"), strings.Replace(name, "-", "_", 1)} {
				if !slices.ContainsFunc(removed, func(e *regexp.Regexp) bool { return e.MatchString(spelling) }) {
					t.Errorf("%s: %s stays", what, spelling)
				}
			}
		}
	}
}

// TestAuthorizationServiceKnowsEncryptedConnections: the OAuth server is told https for a
// connection that is, and http where the client has sent no server name.
func TestAuthorizationServiceKnowsEncryptedConnections(t *testing.T) {
	cert, key, pool := certificateOf(t, "gateway.test")
	w := newWorld(t, options{authz: true, oauth: echoAs("oauth"), edit: func(config object) {
		ask(at(virtualHost(config), "routes", 2).(object), `{"route":"r","service":"`+serviceID+`","issues":true,"plugins":[{"id":"`+pluginID+`","oauth2":{"header":"authorization"}}]}`)
		chain := at(config, "static_resources", "listeners", 0, "filter_chains", 0).(object)
		chain["transport_socket"] = object{"name": "envoy.transport_sockets.tls", "typed_config": object{
			"@type":              "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
			"common_tls_context": object{"tls_certificates": []any{object{"certificate_chain": object{"inline_string": cert}, "private_key": object{"inline_string": key}}}},
		}}
	}})
	for name, want := range map[string]string{"gateway.test": "https", "127.0.0.1": "http"} { // an address is no server name
		client := *w
		client.base = strings.Replace(w.base, "http://", "https://", 1)
		client.client = newClient(t, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: name}})
		got := client.do(t, client.request(t.Context(), t, http.MethodPost, "/oauth2/token", http.NoBody)).seen(t).Headers.Get(contract.HeaderOAuthScheme)
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// certificateOf makes a certificate for a name and for the loopback address.
func certificateOf(t *testing.T, name string) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(cert))
	return cert, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})), pool
}
