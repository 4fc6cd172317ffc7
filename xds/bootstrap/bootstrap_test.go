package bootstrap_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/xds/bootstrap"
)

var update = flag.Bool("update", false, "write golden files")

var golden = map[string]bootstrap.Config{
	"socket.yaml": {
		NodeID: "cp/default/one", Cluster: "oauth-gateway", Relay: "/run/meshgate/ads.sock",
		AdminSocket: "/run/meshgate/admin.sock", Metadata: map[string]string{"version": "1", "kind": "oauth-gateway"},
	},
	"port.yaml": {
		NodeID: "default.web-1", Cluster: "web", Relay: "/run/meshgate/ads.sock",
		AdminPort: 9901, MaxHeap: 1 << 30, MaxConnections: 100,
	},
}

func TestRenderGolden(t *testing.T) {
	for name, config := range golden {
		t.Run(name, func(t *testing.T) {
			got, err := bootstrap.Render(config)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name)
			if *update {
				if err := os.MkdirAll("testdata", 0o750); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("bootstrap (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRenderIsDeterministic(t *testing.T) {
	first, err := bootstrap.Render(golden["socket.yaml"])
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		again, err := bootstrap.Render(golden["socket.yaml"])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, again) {
			t.Fatal("equal configurations gave different bytes")
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	ok := golden["socket.yaml"]
	for name, breakIt := range map[string]func(*bootstrap.Config){
		"no node id":     func(c *bootstrap.Config) { c.NodeID = "" },
		"no relay":       func(c *bootstrap.Config) { c.Relay = "" },
		"no admin":       func(c *bootstrap.Config) { c.AdminSocket = "" },
		"long socket":    func(c *bootstrap.Config) { c.Relay = "/" + strings.Repeat("x", 107) },
		"no port":        func(c *bootstrap.Config) { c.AdminPort = 65536 },
		"bad metadata":   func(c *bootstrap.Config) { c.Metadata = map[string]string{"a": "\xff"} },
		"bad admin path": func(c *bootstrap.Config) { c.AdminSocket = "/" + strings.Repeat("y", 107) },
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

// TestEnvoyAccepts asks Envoy itself, where there is one.
func TestEnvoyAccepts(t *testing.T) {
	envoy := envoyPath()
	if envoy == "" {
		t.Log("no Envoy: only the golden files were compared")
		return
	}
	for name, config := range golden {
		t.Run(name, func(t *testing.T) {
			config.Relay = filepath.Join(t.TempDir(), "ads.sock")
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
