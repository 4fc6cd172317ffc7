package attacker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/localsocket"
	"github.com/meshgate/meshgate/e2e/framework"
)

// port is a listener of a control plane: a door, and how it is spoken to.
type port struct {
	door
	// setting is the one that says where it is; empty if none does.
	setting string
	// status is what an honest request for the door's next path gets.
	status int
	// calls says that gRPC is spoken over TLS; commands, that the protocol is that of Redis.
	calls, commands bool
}

// at is where the port is, in the words of [listening].
func (p *port) at() string {
	if p.socket != "" {
		return filepath.Base(p.socket)
	}
	return strconv.Itoa(max(p.plain, p.secure))
}

// elsewhere are the settings of ports that no control plane opens: those of the gateway, which
// has a door of its own, and of the process that runs a proxy.
var elsewhere = []string{"gateway.httpPort", "gateway.httpsPort", "status.port"}

// portsOf are the doors of a control plane: one for each of its listeners.
func portsOf(cp *framework.ControlPlane) []*port {
	plain := func(setting string, at, status int, next string, known ...*target) *port {
		return &port{setting: setting, status: status, door: door{
			name: setting, ip: "127.0.0.1", plain: at, host: "localhost", next: next, http1: true, documents: true, targets: known,
			behind: &target{name: "nothing"},
		}}
	}
	secure := func(setting string, at, status int, next string, known ...*target) *port {
		p := plain(setting, 0, status, next, known...)
		p.secure, p.roots = at, trusting(cp.CAFile())
		return p
	}
	mesh := described(fmt.Sprintf("http://127.0.0.1:%d/openapi.json", cp.Mesh), http.DefaultClient)
	admin := described(fmt.Sprintf("http://127.0.0.1:%d/openapi.json", cp.Admin), http.DefaultClient)
	local := plain("cloud_local", 0, http.StatusOK, "/v2/organizations/me")
	local.setting, local.socket = "", filepath.Join(cp.StateDir, cloud.LocalSocket)
	clouds := described("http://localhost/openapi.json", &http.Client{Transport: overSocket(local.socket)})
	local.targets = clouds
	data := secure("dataPlane.port", cp.Data, http.StatusForbidden, "/oauth2/token", leading("link", "filters/ended", "admin-link", "token", "roots", "bootstrap", "bootstrap/token", "dataplanes/readiness", "oauth2/token", "oauth2/authorize", "x/oauth2/introspect")...)
	data.calls, data.http1 = true, false
	redis := plain("redis.embeddedPort", cp.Redis, 0, "")
	redis.commands = true
	return []*port{
		data, redis, local,
		plain("diagnostics.port", cp.Diagnostics, http.StatusOK, "/healthy", leading("healthy", "ready", "metrics", "debug/pprof", "debug/pprof/heap")...),
		plain("mesh.port", cp.Mesh, http.StatusOK, "/", mesh...), secure("mesh.tlsPort", cp.MeshTLS, http.StatusOK, "/", mesh...),
		plain("admin.port", cp.Admin, http.StatusOK, "/status", admin...), secure("admin.tlsPort", cp.AdminTLS, http.StatusOK, "/status", admin...),
		plain("cloud.port", cp.Cloud, http.StatusUnauthorized, "/v2/organizations/me", clouds...), secure("cloud.tlsPort", cp.CloudTLS, http.StatusUnauthorized, "/v2/organizations/me", clouds...),
	}
}

// overSocket calls the API behind a Unix socket, whatever the host is called.
func overSocket(path string) *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return localsocket.Dial(ctx, path) }}
}

// leading makes targets of paths.
func leading(paths ...string) (out []*target) {
	for _, p := range paths {
		out = append(out, &target{name: p})
	}
	return out
}

// described are the paths of an API by its own description, so that no path is forgotten.
func described(url string, client *http.Client) []*target {
	resp, err := client.Get(url) //nolint:noctx // a test
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	Expect(err).NotTo(HaveOccurred())
	Expect(resp.StatusCode).To(Equal(http.StatusOK), string(body))
	var doc struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	Expect(json.Unmarshal(body, &doc)).To(Succeed())
	Expect(len(doc.Paths)).To(BeNumerically(">", 10))
	var out []*target
	for _, p := range slices.Sorted(maps.Keys(doc.Paths)) {
		segments := strings.Split(strings.TrimPrefix(p, "/"), "/")
		for i, s := range segments {
			if strings.HasPrefix(s, "{") {
				segments[i] = "default"
			}
		}
		t := &target{name: strings.Join(segments, "/")}
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[p])) {
			t.methods = append(t.methods, strings.ToUpper(method))
		}
		out = append(out, t)
	}
	return out
}
