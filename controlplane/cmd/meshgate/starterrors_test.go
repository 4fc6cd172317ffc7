package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/assembly"
	"github.com/meshgate/meshgate/controlplane/cli/clitest"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/fault"
)

// takenPort returns a port that is in use.
func takenPort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}

// TestStartErrors tries starts that must fail. Each error is a start error with its own exit
// code, and names what to change.
func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken := takenPort(t)
	used := filepath.Join(dir, "used")
	claim, err := assembly.ClaimStateDir(used)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = claim.Close() }()
	declared := filepath.Join(dir, "gateway.yaml")
	if err := os.WriteFile(declared, []byte("_format_version: \"3.0\"\nplugins:\n  - name: oauth2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(dir, "short.token")
	if err := os.WriteFile(short, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	free := func(name string, args ...string) []string {
		return append([]string{"--state-dir", filepath.Join(dir, name), "--data-plane-port", "0", "--diagnostics-port", "0", "--mesh-port", "0", "--mesh-tls-port", "0", "--admin-port", "0", "--admin-tls-port", "0", "--cloud-port", "0", "--cloud-tls-port", "0"}, args...)
	}
	gw := []string{"--proxy-type", "oauth-gateway", "--ca-cert-file", file, "--dataplane-token-file", file, "--state-dir", filepath.Join(dir, "dp")}
	for _, test := range []struct {
		name    string
		command *cobra.Command
		args    []string
		want    string
	}{
		{"unknown setting's value", runCommand(), []string{"--store-type", "paper"}, "store.type"},
		{"no such configuration file", runCommand(), []string{"--config", filepath.Join(dir, "none.yaml")}, "none.yaml"},
		{"state directory is a file", runCommand(), []string{"--state-dir", file}, "state directory " + file + " cannot be used"},
		{"state directory in use", runCommand(), []string{"--state-dir", used}, "it is in use by another meshgate; set stateDir (environment MESHGATE_STATE_DIR)"},
		{"port in use", runCommand(), []string{"--state-dir", filepath.Join(dir, "run"), "--data-plane-port", taken}, "port " + taken + " on 0.0.0.0 is in use by another process; set dataPlane.port (environment MESHGATE_DATA_PLANE_PORT) to a free one"},
		{"open administration", runCommand(), []string{"--state-dir", filepath.Join(dir, "open"), "--admin-listen", "0.0.0.0"}, "admin.listen: must be a loopback address unless admin.token or admin.tokenFile is set"},
		{"open mesh API", runCommand(), []string{"--state-dir", filepath.Join(dir, "openmesh"), "--mesh-listen", "0.0.0.0"}, "mesh.listen: must be a loopback address unless access.roles is set or access.anonymous is false"},
		{"no public key", runCommand(), free("public", "--tokens-public-keys", "[{for: user, kid: ci, keyFile: "+file+"}]"), "tokens.publicKeys[0].keyFile " + file + ": is not PEM"},
		{"no authority of clients", runCommand(), free("clients", "--access-client-ca-file", file), "access.clientCAFile: holds no certificate"},
		{"no certificate", runCommand(), free("cert", "--mesh-tls-cert-file", file, "--mesh-tls-key-file", file), "mesh.tlsCertFile and mesh.tlsKeyFile: "},
		{"short token", runCommand(), free("short", "--admin-token-file", short), "admin.tokenFile: the token must have at least 16 characters"},
		{"no declarative file", runCommand(), free("none", "--gateway-declarative", declared+"x"), "gateway.declarative (environment MESHGATE_GATEWAY_DECLARATIVE): open " + declared + "x"},
		{"a plugin that needs a database", runCommand(), free("oauth2", "--gateway-declarative", declared), declared + ":3: plugins[0].name: the plugin issues tokens and codes and needs a database"},
		{"no Envoy", standaloneCommand(), []string{"--state-dir", filepath.Join(dir, "s1"), "--envoy-path", file}, "cannot run Envoy at " + file},
		{"demo in a used directory", demoCommand(), []string{"--state-dir", used}, "it is in use by another meshgate"},
		{"no proxy type", dataplaneCommand(), []string{"--state-dir", filepath.Join(dir, "dp")}, `--proxy-type "" is none that exists; use oauth-gateway, sidecar, gateway, ingress or egress`},
		{"names for a gateway", dataplaneCommand(), []string{"--proxy-type", "gateway", "--name", "gw", "--ca-cert-file", file, "--dataplane-token-file", file, "--dns-port", "53"}, "--dns-port is for sidecars"},
		{"names outside for an ingress", dataplaneCommand(), []string{"--proxy-type", "ingress", "--name", "in", "--ca-cert-file", file, "--dataplane-token-file", file, "--external-name", "example.com"}, "--external-name is for egresses"},
		{"this machine as a name outside", dataplaneCommand(), []string{"--proxy-type", "egress", "--name", "out", "--ca-cert-file", file, "--dataplane-token-file", file, "--state-dir", filepath.Join(dir, "dp3"), "--external-name", "example.com", "--external-name", "a.localhost"},
			`--external-name: "a.localhost" is this machine`},
		{"no files", dataplaneCommand(), gw[:2], "--ca-cert-file and --dataplane-token-file are needed"},
		{"no name", dataplaneCommand(), gw, `--name "": the input is not valid: name: must be 1 to 63 of`},
		{"filter of nobody", standaloneCommand(), []string{"--state-dir", filepath.Join(dir, "s2"), "--filter-mode", "wasm"}, "filter.mode: must be one of module, extauthz, golang"},
		{"sidecar that asks a service", dataplaneCommand(), []string{"--proxy-type", "sidecar", "--name", "web", "--ca-cert-file", file, "--dataplane-token-file", file, "--state-dir", filepath.Join(dir, "dp2"), "--filter-mode", "extauthz"},
			"filter.mode extauthz is for gateways only: a sidecar has the module"},
		{"service without a socket", authzCommand(), []string{"--settings", file}, "--listen must be unix:// and an absolute path, such as unix:///run/meshgate/authz.sock"},
		{"service at a port", authzCommand(), []string{"--settings", file, "--listen", "127.0.0.1:9191"}, "--listen must be unix:// and an absolute path, such as unix:///run/meshgate/authz.sock"},
		{"no Envoy for a node", dataplaneCommand(), append(gw, "--name", "gw", "--envoy-path", file), "cannot run Envoy at " + file},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("MESHGATE_STATE_DIR", filepath.Join(dir, "default"))
			_, err := clitest.Execute(t, test.command, test.args...)
			if fault.Begun(err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want a start error with %q", err, test.want)
			}
		})
	}
}

// TestEachProxyHasItsOwnState: two sidecars and a gateway can run on one machine without any
// setting.
func TestEachProxyHasItsOwnState(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range []dataplaneFlags{
		{proxyType: proxySidecar, mesh: "default", name: "web"},
		{proxyType: proxySidecar, mesh: "default", name: "backend"},
		{proxyType: proxySidecar, mesh: "shop", name: "web"},
		{proxyType: proxyGateway, controlPlane: "default", mesh: "default", name: "web"},
	} {
		l := &config.Loaded{Origin: map[string]string{"stateDir": "default"}}
		l.Config.StateDir = "/state"
		placeState(l, f.folder())
		if dir := l.Config.StateDir; seen[dir] || !strings.HasPrefix(dir, "/state/") {
			t.Errorf("%+v uses %s, as another one does", f, dir)
		}
		seen[l.Config.StateDir] = true
		l.Origin["stateDir"], l.Config.StateDir = "flag", "/chosen"
		if placeState(l, f.folder()); l.Config.StateDir != "/chosen" {
			t.Errorf("%s instead of the chosen directory", l.Config.StateDir)
		}
	}
}
