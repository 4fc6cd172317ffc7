// Package plantest has what the tests of all planners need: the real Envoy, which
// judges what they plan, and a form of it that people can read.
package plantest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// Command is the built Envoy, with the built filter and settings for it that lead
// nowhere. The test fails if one of them is missing: its opinion was to be asked.
func Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	envoy := os.Getenv("ENVOY_PATH")
	if envoy == "" {
		envoy = filepath.Join("..", "..", "..", ".tools", "envoy")
	}
	modules, err := filepath.Abs(filepath.Join("..", "..", "..", "bin"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{envoy, filepath.Join(modules, "lib"+contract.FilterName+".so")} {
		if _, err := os.Stat(file); err != nil {
			t.Fatalf("run 'make build' first: %v", err)
		}
	}
	settings := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(settings, []byte(`{"redis":{"url":"redis://127.0.0.1:1"},"cache":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(context.Background(), envoy, args...)
	c.Env = append(os.Environ(), "ENVOY_DYNAMIC_MODULES_SEARCH_PATH="+modules, contract.SettingsEnv+"="+settings)
	return c
}

// Validate asks Envoy whether it accepts a configuration, without a warning of
// what is deprecated.
func Validate(t testing.TB, config []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := Command(t, "--mode", "validate", "-c", file).CombinedOutput()
	if err != nil {
		t.Errorf("envoy refuses: %v\n%s", err, out)
	}
	if strings.Contains(string(out), "eprecated") {
		t.Errorf("envoy warns:\n%s", out)
	}
}
