package module

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/extauthz"
	"github.com/meshgate/meshgate/filter/filtertest"
)

// authzExample is the configuration of an Envoy that asks an authorization service.
const authzExample = "docs/examples/authz/envoy.yaml"

// startAuthz runs the authorization service on a Redis.
func startAuthz(t *testing.T, port, redisPort int) {
	t.Helper()
	settings := filepath.Join(t.TempDir(), "settings.json")
	data, err := json.Marshal(contract.Settings{Redis: &contract.RedisSettings{URL: fmt.Sprintf("redis://127.0.0.1:%d", redisPort)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(settings, data, 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, "authorization service is ready", exec.Command(filepath.Join(root, "bin", "meshgate"), "authz",
		"--listen", fmt.Sprintf("127.0.0.1:%d", port), "--settings", settings))
}

// ask has a route ask about a chain. Bodies are sent where the chain looks into them.
func ask(route object, chain string) {
	check := object{"context_extensions": object{extauthz.ChainExtension: chain}}
	if strings.Contains(chain, `"in_body":true`) {
		check["context_extensions"].(object)[extauthz.BodyExtension] = "true"
		check["with_request_body"] = object{"max_request_bytes": extauthz.MaxBody, "allow_partial_message": true, "pack_as_bytes": true}
		route["request_body_buffer_limit"] = 2 * extauthz.MaxBody
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
		runCase(t, w, http2, &cases[i])
	}
}
