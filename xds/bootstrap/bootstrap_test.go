package bootstrap_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/e2e/golden"
	"github.com/meshgate/meshgate/xds/bootstrap"
)

var configs = allConfigs()

func allConfigs() map[string]bootstrap.Config {
	configs := map[string]bootstrap.Config{
		"socket.yaml": {
			NodeID: "cp/default/one", Cluster: "oauth-gateway", Relay: "/run/meshgate/ads.sock",
			AdminSocket: "/run/meshgate/admin.sock", Metadata: map[string]any{"version": "1", "kind": "oauth-gateway"},
		},
		"port.yaml": {
			NodeID: "default.web-1", Cluster: "web", Relay: "/run/meshgate/ads.sock",
			AdminPort: 9901, MaxHeap: 1 << 30, MaxConnections: 100,
		},
	}
	configs["authz-socket.yaml"] = bootstrap.Config{
		NodeID: "cp/default/one", Cluster: "oauth-gateway", Relay: "/run/meshgate/ads.sock", AdminSocket: "/run/meshgate/admin.sock", Authz: "/run/meshgate/authz.sock",
	}
	configs["relay-sidecar.yaml"] = bootstrap.Config{
		NodeID: "default.web-1", Cluster: "web", Relay: "/run/meshgate/ads.sock",
		AdminSocket: "/run/meshgate/admin.sock", Metadata: sidecar,
	}
	configs["password.yaml"] = bootstrap.Config{
		NodeID: "default.web-1", Cluster: "web", Relay: "/run/meshgate/ads.sock", Password: "0123%",
		AdminSocket: "/run/meshgate/admin.sock",
	}
	configs["logs.yaml"] = bootstrap.Config{
		NodeID: "default.web-1", Cluster: "web", Relay: "/run/meshgate/ads.sock", AdminSocket: "/run/meshgate/admin.sock", Logs: "/run/meshgate/logs.sock",
	}
	configs["metrics.yaml"] = bootstrap.Config{
		NodeID: "default.web-1", Cluster: "web", Relay: "/run/meshgate/ads.sock", AdminSocket: "/run/meshgate/admin.sock", Metrics: "/run/meshgate/metrics.sock",
	}
	for file, host := range map[string]string{"direct-name.yaml": "cp.example.com", "direct-ip.yaml": "10.0.0.1", "direct-ip6.yaml": "::1"} {
		configs[file] = bootstrap.Config{
			NodeID: "default.web-1", Cluster: "web", AdminPort: 9901, Metadata: sidecar,
			Direct: &bootstrap.Direct{Host: host, Port: 5678, CA: []byte(authority), Token: "token"},
		}
	}
	return configs
}

// authority is a certificate that Envoy can read. It signs nothing.
const authority = `-----BEGIN CERTIFICATE-----
MIIBgDCCASWgAwIBAgIUZx8w01/vajfVhcdWmFq8ysAtWQAwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJYXV0aG9yaXR5MCAXDTI2MTEyMTExMzkxNFoYDzIxMjYxMDI4
MTEzOTE0WjAUMRIwEAYDVQQDDAlhdXRob3JpdHkwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAS96IGZ6hV1CN0pcPDvqm+iqKm2reK1aaJ1erK8oyI8RAbRePfqb5Mt
bKBt+bq+fPVTbbj6GMn0iX4anJRTLCLxo1MwUTAdBgNVHQ4EFgQU1u4or4q5P9la
Ottdiu1rmQZRQjswHwYDVR0jBBgwFoAU1u4or4q5P9laOttdiu1rmQZRQjswDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNJADBGAiEAmVV70tVhe2Acoo+l77ZJ
HAeD7JazLDKlLo2G6O0LMa8CIQDLYeYFgI9V0e4hjm/C4MuJczGqz02nh4rIFaG/
M51/iQ==
-----END CERTIFICATE-----
`

var sidecar = map[string]any{
	"dataplane.proxyType": "dataplane", "dataplane.admin.port": "9901",
	"version": map[string]any{"meshDp": map[string]any{"version": "1.0.0"}},
}

func TestRenderGolden(t *testing.T) {
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			got, err := bootstrap.Render(config)
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join("testdata", name), got)
		})
	}
}

func TestRenderIsDeterministic(t *testing.T) {
	first, err := bootstrap.Render(configs["socket.yaml"])
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		again, err := bootstrap.Render(configs["socket.yaml"])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, again) {
			t.Fatal("equal configurations gave different bytes")
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	ok := configs["socket.yaml"]
	for name, breakIt := range map[string]func(*bootstrap.Config){
		"no node id":  func(c *bootstrap.Config) { c.NodeID = "" },
		"no relay":    func(c *bootstrap.Config) { c.Relay = "" },
		"no admin":    func(c *bootstrap.Config) { c.AdminSocket = "" },
		"long socket": func(c *bootstrap.Config) { c.Relay = "/" + strings.Repeat("x", 107) },
		"no port":     func(c *bootstrap.Config) { c.AdminPort = 65536 },
		"a password for nobody": func(c *bootstrap.Config) {
			c.Relay, c.Direct, c.Password = "", configs["direct-name.yaml"].Direct, "x"
		},
		"two ways": func(c *bootstrap.Config) { c.Direct = configs["direct-name.yaml"].Direct },
		"no host": func(c *bootstrap.Config) {
			c.Relay, c.Direct = "", &bootstrap.Direct{Port: 1, CA: []byte("x"), Token: "t"}
		},
		"no CP port": func(c *bootstrap.Config) {
			c.Relay, c.Direct = "", &bootstrap.Direct{Host: "cp", CA: []byte("x"), Token: "t"}
		},
		"no CA": func(c *bootstrap.Config) { c.Relay, c.Direct = "", &bootstrap.Direct{Host: "cp", Port: 1, Token: "t"} },
		"no token": func(c *bootstrap.Config) {
			c.Relay, c.Direct = "", &bootstrap.Direct{Host: "cp", Port: 1, CA: []byte("x")}
		},
		"bad metadata":   func(c *bootstrap.Config) { c.Metadata = map[string]any{"a": "\xff"} },
		"bad admin path": func(c *bootstrap.Config) { c.AdminSocket = "/" + strings.Repeat("y", 107) },
		"port of authz":  func(c *bootstrap.Config) { c.Authz = "127.0.0.1:9191" },
	} {
		t.Run(name, func(t *testing.T) {
			c := ok
			breakIt(&c)
			if out, err := bootstrap.Render(c); err == nil {
				t.Errorf("rendered:\n%s", out)
			}
		})
	}
}

// TestTokensAreLiteral: Envoy expands %NAME% in the initial metadata of a stream, so tokens
// must be escaped.
func TestTokensAreLiteral(t *testing.T) {
	config := configs["direct-name.yaml"]
	direct := *config.Direct
	config.Direct, direct.Token = &direct, "a%REQ(X)%b"
	text, err := bootstrap.Render(config)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte("value: a%%REQ(X)%%b\n")) {
		t.Errorf("bootstrap is\n%s", text)
	}
}

// TestEnvoyAccepts asks Envoy itself, if there is one.
func TestEnvoyAccepts(t *testing.T) {
	envoy := envoyPath()
	if envoy == "" {
		t.Log("no Envoy: only the golden files were compared")
		return
	}
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			if config.Direct == nil {
				config.Relay = filepath.Join(t.TempDir(), "ads.sock")
			}
			text, err := bootstrap.Render(config)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "envoy.yaml")
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(context.Background(), envoy, "--mode", "validate", "-c", file).CombinedOutput()
			if err != nil {
				t.Errorf("envoy refuses: %v\n%s", err, out)
			}
			if bytes.Contains(out, []byte("[warning]")) {
				t.Errorf("envoy warns:\n%s", out)
			}
		})
	}
}

func envoyPath() string {
	for _, p := range []string{os.Getenv("ENVOY_PATH"), "../../.tools/envoy"} {
		if info, err := os.Stat(p); err == nil && !info.IsDir() {
			return p
		}
	}
	return ""
}
