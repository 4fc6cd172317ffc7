package assembly

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/localsocket"
)

// TestAccessTokens creates personal access tokens through the socket of the state directory, and looks
// what they are good for at each API.
func TestAccessTokens(t *testing.T) {
	cp := startServing(t, config.Config{Cloud: config.Cloud{Roles: "global, regional", Hosts: "cloud.example.com"}, Access: config.Access{LocalhostIsAdmin: true}}, slog.New(slog.DiscardHandler))
	socket := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return localsocket.Dial(ctx, filepath.Join(cp.cfg.StateDir, cloud.LocalSocket))
	}}}
	t.Cleanup(socket.CloseIdleConnections)
	call := func(client *http.Client, token, method, url, body string) (int, map[string]any) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		a, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = a.Body.Close() }()
		text, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		doc := map[string]any{}
		if len(text) > 0 && json.Unmarshal(text, &doc) != nil {
			t.Fatalf("%s %s: %s", method, url, text)
		}
		return a.StatusCode, doc
	}
	tokens, ids := map[string]string{"": "", "unknown": "mgpat_" + strings.Repeat("A", 52)}, map[string]string{}
	for name, body := range map[string]string{
		"admin":   `{"name":"admin","role":"admin"}`,
		"viewer":  `{"name":"viewer","role":"viewer","system":true}`,
		"gateway": `{"name":"gateway","role":"editor","control_planes":["default"]}`,
		"ended":   `{"name":"ended","role":"admin","expires_at":"2020-01-01T00:00:00Z"}`,
		"revoked": `{"name":"revoked","role":"admin"}`,
	} {
		status, doc := call(socket, "", "POST", "http://localhost/v2/personal-access-tokens", body)
		if status != http.StatusCreated {
			t.Fatal(name, status, doc)
		}
		tokens[name], ids[name] = doc["token"].(string), doc["id"].(string)
		if status, doc = call(socket, "", "GET", "http://localhost/v2/personal-access-tokens/"+ids[name], ""); doc["token"] != nil || doc["digest"] != nil || status != http.StatusOK && name != "ended" {
			t.Errorf("%s is shown as %d %v", name, status, doc)
		}
	}
	tokens["bob"] = userToken(t, cp, "bob")
	if status, doc := call(socket, "", "DELETE", "http://localhost/v2/personal-access-tokens/"+ids["revoked"], ""); status != http.StatusNoContent {
		t.Fatal(status, doc)
	}
	at := func(ln net.Listener, path string) string { return "http://127.0.0.1:" + strconv.Itoa(port(ln)) + path }
	destination := func(who string) string {
		return `{"name":"` + who + `","endpoint":"https://siem.example/","authorization":"x","log_format":"cef"}`
	}
	cloudAt := at(cp.ports.cloud, "/v2")
	for who, want := range map[string]struct{ read, write, tokens, entities int }{
		// Callers on this machine are administrators at the other APIs, but have no identity at this one.
		"":        {401, 401, 401, 200},
		"admin":   {200, 200, 200, 200},
		"viewer":  {200, 403, 403, 200},
		"gateway": {403, 403, 403, 200},
		"ended":   {401, 401, 401, 200},
		"bob":     {403, 403, 403, 200}, // a user without a role
		"revoked": {401, 401, 401, 200},
		"unknown": {401, 401, 401, 200},
	} {
		for _, test := range []struct {
			method, url, body string
			want              int
		}{
			{"GET", cloudAt + "/audit-log-destinations", "", want.read},
			{"POST", cloudAt + "/audit-log-destinations", destination(who + "x"), want.write},
			{"GET", cloudAt + "/personal-access-tokens", "", want.tokens},
			{"POST", cloudAt + "/personal-access-tokens", `{}`, max(want.tokens, 400)},
			{"GET", at(cp.ports.admin, "/services"), "", want.entities},
		} {
			if status, doc := call(http.DefaultClient, tokens[who], test.method, test.url, test.body); status != test.want {
				t.Errorf("%s %s as %q: %d %v", test.method, test.url, who, status, doc)
			}
		}
	}
	if status, doc := call(http.DefaultClient, tokens["gateway"], "POST", cloudAt+"/control-planes/"+cloud.DefaultID+"/core-entities/services", `{"name":"web","host":"web.example"}`); status != http.StatusCreated {
		t.Fatal(status, doc)
	}
	for actor, want := range map[string]int{"token:gateway": 1, "user:token:gateway": 1, "gateway": 0, "system:gateway": 0, "token:": 0} {
		status, doc := call(http.DefaultClient, tokens["admin"], "GET", at(cp.ports.admin, "/changes?kind=service&actor="+actor), "")
		if items, _ := doc["data"].([]any); status != http.StatusOK || len(items) != want {
			t.Errorf("changes of %s: %d %v, want %d", actor, status, doc, want)
		}
	}
	if status, doc := call(http.DefaultClient, tokens["admin"], "POST", cloudAt+"/portals", `{"name":"docs","custom_domain":"cloud.example.com"}`); status != http.StatusBadRequest {
		t.Errorf("a portal takes a host of the API: %d %v", status, doc)
	}
	http.DefaultClient.CloseIdleConnections()
	for name, body := range map[string]string{
		"no role": `{"name":"x"}`, "unknown role": `{"name":"x","role":"root"}`, "no name": `{"role":"admin"}`, "own digest": `{"name":"x","role":"admin","digest":"d"}`,
		"own token": `{"name":"x","role":"admin","token":"mgpat_x"}`, "no time": `{"name":"x","role":"admin","expires_at":"tomorrow"}`,
	} {
		if status, doc := call(socket, "", "POST", "http://localhost/v2/personal-access-tokens", body); status != http.StatusBadRequest || doc["invalid_parameters"] == nil {
			t.Errorf("%s: %d %v", name, status, doc)
		}
	}
	if status, doc := call(socket, "", "PATCH", "http://localhost/v2/personal-access-tokens/"+ids["viewer"], `{"role":"admin"}`); status != http.StatusMethodNotAllowed {
		t.Errorf("a token is changed: %d %v", status, doc)
	}
}
