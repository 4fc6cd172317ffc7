package assembly

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/e2e/golden"
)

// apiReader calls the APIs of a control plane over the network.
type apiReader struct {
	t      *testing.T
	client *http.Client
}

// varying is what differs between two equal answers: the id of the request.
var varying = regexp.MustCompile(`(meshgate:trace:|"request_id": ?")[^"]*`)

// get returns an answer: its status, its challenge and its body, as far as they say anything.
func (c apiReader) get(url, token string) (status int, answer string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	a, err := c.client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return a.StatusCode, fmt.Sprint(a.StatusCode, a.Header["Www-Authenticate"], varying.ReplaceAllString(string(body), "$1…"))
}

// member matches a variable of a path.
var member = regexp.MustCompile(`\{[^}]*\}`)

// readable lists the paths that an API says it has, for reading.
func (c apiReader) readable(base, token string) (urls []string) {
	c.t.Helper()
	_, answer := c.get(base+"/openapi.json", token)
	var doc struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal([]byte(answer[strings.Index(answer, "{"):]), &doc); err != nil {
		c.t.Fatal(err)
	}
	for path, operations := range doc.Paths {
		if operations["get"] != nil {
			path = strings.ReplaceAll(path, "{mesh}", mesh.Default)
			urls = append(urls, base+member.ReplaceAllString(path, "d"))
		}
	}
	slices.Sort(urls)
	return urls
}

// TestTokensOfProxiesReadNothing: a token that is good for a proxy, a gateway or a zone opens none of the
// APIs for people. Each dump, record and list is refused to whoever shows it as to whoever shows no token
// that counts, with the same words: they must not tell a genuine token from an invented one.
func TestTokensOfProxiesReadNothing(t *testing.T) {
	cp := startServing(t, config.Config{
		Admin: config.AdminPorts{Token: "the-token-of-this-test"}, Tokens: config.Tokens{Issuing: true},
		Access: config.Access{BootstrapAdminToken: true, Roles: []access.Role{{Role: "viewer", All: true, Groups: []string{"viewers"}}}},
	}, slog.New(slog.DiscardHandler))
	c := apiReader{t, &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: cp.authority.Pool(), MinVersion: tls.VersionTLS12}}}}
	defer c.client.CloseIdleConnections()
	zone, err := cp.people.IssueZone(t.Context(), identity.ZoneTokenRequest{Zone: cp.cfg.Zone.Own(), Scope: []string{"ingress", "egress"}, ValidFor: "1h"})
	if err != nil {
		t.Fatal(err)
	}
	ingress, err := cp.people.IssueZoneIngress(t.Context(), identity.ZoneIngressTokenRequest{Zone: cp.cfg.Zone.Own(), ValidFor: "1h"})
	if err != nil {
		t.Fatal(err)
	}
	dataplane, err := cp.mesh.tokens.Issue(t.Context(), identity.DataplaneTokenRequest{Mesh: mesh.Default, Name: "d", ValidFor: "1h"})
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := cp.tokens.Gateway("default", "gw", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	viewer := userToken(t, cp, "vi", "viewers")
	meshAPI, adminAPI := fmt.Sprintf("https://localhost:%d", cp.MeshTLSPort()), fmt.Sprintf("https://localhost:%d", port(cp.ports.adminTLS))
	refused := 0
	for _, url := range slices.Concat(c.readable(meshAPI, viewer), c.readable(adminAPI, viewer)) {
		nobody, _ := c.get(url, "")
		status, invented := c.get(url, "a.b.c")
		if nobody == http.StatusUnauthorized && status != nobody {
			t.Errorf("%s: an invented token is answered %s", url, invented)
		}
		if nobody == http.StatusUnauthorized {
			refused++
		}
		for kind, token := range map[string]string{"proxy": dataplane, "gateway": gateway, "zone": zone, "ingress": ingress} {
			if _, got := c.get(url, token); got != invented {
				t.Errorf("%s, token of a %s: %s, want %s", url, kind, got, invented)
			}
		}
	}
	if refused < 100 {
		t.Errorf("only %d paths are refused to nobody", refused)
	}
	// The paths exist, and are refused because of who asks.
	for _, url := range []string{meshAPI + "/meshes/default", meshAPI + "/meshes/default/dataplanes", adminAPI + "/services"} {
		if status, answer := c.get(url, viewer); status != http.StatusOK {
			t.Errorf("%s: %s for a viewer", url, answer)
		}
	}
	for _, path := range []string{"/config", "/nodes", "/meshes/default/dataplanes/d/xds", "/meshes/default/dataplanes/d/policies", "/meshes/default/dataplanes/d/rules", "/meshes/default/dataplanes/d/config", "/zoneingresses/d/xds"} {
		if status, answer := c.get(meshAPI+path, dataplane); status != http.StatusUnauthorized {
			t.Errorf("%s: %s", path, answer)
		}
	}
}

// TestDumpsMatrix asks for everything that a control plane shows of itself, its proxies and their
// configuration: each path of the mesh API, of the administration API and of the diagnostics port, with
// genuine credentials of everybody who might want to. A new path is in the golden file, or fails.
func TestDumpsMatrix(t *testing.T) {
	const token = "the-token-of-this-test"
	cp := startServing(t, config.Config{
		Admin: config.AdminPorts{Token: token}, Tokens: config.Tokens{Issuing: true}, Diagnostics: config.Diagnostics{Pprof: true},
		Access: config.Access{BootstrapAdminToken: true, Roles: []access.Role{
			{Role: "viewer", Meshes: []string{mesh.Default}, Users: []string{"vi"}}, {Role: "admin", Meshes: []string{"other"}, Users: []string{"eve"}},
		}},
	}, slog.New(slog.DiscardHandler))
	gate := cp.gate.As(model.System("test"))
	for _, d := range []struct {
		kind        *model.Kind
		scope, name string
		spec        any
	}{
		{mesh.Meshes, "", "other", &mesh.Mesh{}},
		{mesh.Dataplanes, mesh.Default, "d", &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1", Inbound: []mesh.Inbound{{Port: 80, Tags: mesh.Tags{mesh.TagService: "d"}}}}}},
	} {
		if _, _, err := gate.PutDocument(t.Context(), d.kind, d.scope, d.name, d.spec); err != nil {
			t.Fatal(err)
		}
	}
	dataplane, err := cp.mesh.tokens.Issue(t.Context(), identity.DataplaneTokenRequest{Mesh: mesh.Default, Name: "d", ValidFor: "1h"})
	if err != nil {
		t.Fatal(err)
	}
	administrator := userToken(t, cp, "root", model.GroupAdministrator)
	callers := []struct{ name, token string }{
		{"nobody", ""}, {"proxy d", dataplane}, {"admin of other", userToken(t, cp, "eve")}, {"viewer", userToken(t, cp, "vi")}, {"administrator", administrator}, {"admin.token", token},
	}
	c := apiReader{t, &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: cp.authority.Pool(), MinVersion: tls.VersionTLS12}}}}
	defer c.client.CloseIdleConnections()
	var b strings.Builder
	for _, at := range []struct{ name, base string }{
		{"mesh API", fmt.Sprintf("https://localhost:%d", cp.MeshTLSPort())},
		{"administration API", fmt.Sprintf("https://localhost:%d", port(cp.ports.adminTLS))},
		{"diagnostics", fmt.Sprintf("http://127.0.0.1:%d", port(cp.ports.diagnostics))},
	} {
		fmt.Fprintf(&b, "# %-58s", at.name)
		for _, caller := range callers {
			fmt.Fprintf(&b, " %14s", caller.name)
		}
		b.WriteString("\n")
		urls := []string{}
		if at.name == "diagnostics" {
			for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/goroutine", "/debug/pprof/heap", "/debug/pprof/cmdline", "/debug/vars", "/config_dump", "/xds"} {
				urls = append(urls, at.base+path)
			}
		} else {
			urls = c.readable(at.base, administrator)
		}
		for _, url := range urls {
			fmt.Fprintf(&b, "%-60s", strings.TrimPrefix(url, at.base))
			statuses := map[string]int{}
			for _, caller := range callers {
				statuses[caller.name], _ = c.get(url, caller.token)
				fmt.Fprintf(&b, " %14d", statuses[caller.name])
			}
			b.WriteString("\n")
			if open := statuses["nobody"]; open != http.StatusUnauthorized && statuses["proxy d"] != open && statuses["proxy d"] != http.StatusUnauthorized {
				t.Errorf("%s is more open to a proxy: %v", url, statuses)
			}
		}
	}
	golden.Compare(t, "testdata/dumps.golden", []byte(b.String()))
}
