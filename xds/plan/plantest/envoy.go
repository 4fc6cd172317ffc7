// Package plantest contains what the tests of all planners need: the real Envoy, which judges
// the plans, and a readable form of the plans.
package plantest

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// versionsEnv lists the versions of Envoy, beside the main one, that plans must be accepted by.
// The Makefile sets it and installs them.
const versionsEnv = "ENVOY_VERSIONS"

// Command returns a command for the built Envoy, with the built filter and with settings that
// lead nowhere. The test fails if Envoy or the filter is missing, because skipping would hide
// Envoy's verdict.
func Command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	envoy := os.Getenv("ENVOY_PATH")
	if envoy == "" {
		envoy = filepath.Join(moduleRoot(t), ".tools", "envoy")
	}
	return command(t, envoy, args...)
}

func command(t testing.TB, envoy string, args ...string) *exec.Cmd {
	t.Helper()
	modules := filepath.Join(moduleRoot(t), "bin")
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

// others returns the paths of the Envoys that plans are validated with beside the main one. Under
// make these are all of ENVOY_VERSIONS, and the test fails if one of them is missing. Without the
// variable these are the ones that somebody has installed.
func others(t testing.TB) (paths []string) {
	t.Helper()
	tools := filepath.Join(moduleRoot(t), ".tools")
	versions, set := os.LookupEnv(versionsEnv)
	if !set {
		found, err := filepath.Glob(filepath.Join(tools, "envoy-*.version"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			paths = append(paths, strings.TrimSuffix(file, ".version"))
		}
		return paths
	}
	for _, v := range strings.Fields(versions) {
		path := filepath.Join(tools, "envoy-"+v)
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("%s names Envoy %s, run '.ci/install-envoy %s' first: %v", versionsEnv, v, v, err)
		}
		paths = append(paths, path)
	}
	return paths
}

// moduleRoot returns the folder with go.mod, above that of the test.
func moduleRoot(t testing.TB) string {
	t.Helper()
	at, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			t.Fatal("there is no go.mod above the test")
		}
		at = filepath.Dir(at)
	}
}

// Validate requires that Envoy accepts a configuration without a deprecation warning. So must each
// other version that is supported: see [others].
func Validate(t testing.TB, config []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	accepts(t, Command(t, "--mode", "validate", "-c", file))
	for _, envoy := range others(t) {
		accepts(t, command(t, envoy, "--mode", "validate", "-c", file))
	}
}

func accepts(t testing.TB, c *exec.Cmd) {
	t.Helper()
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s refuses: %v\n%s", filepath.Base(c.Path), err, out)
	}
	if strings.Contains(string(out), "eprecated") {
		t.Errorf("%s warns:\n%s", filepath.Base(c.Path), out)
	}
}

// Run starts an Envoy with a configuration file and returns when it listens. The Envoy runs
// until the test ends.
func Run(t testing.TB, file string) *os.Process {
	t.Helper()
	c := Command(t, "-c", file, "--disable-hot-restart", "--concurrency", "1", "-l", "info")
	log, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan struct{})
	var last string
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(log)
		for started := false; lines.Scan(); {
			last = lines.Text()
			if !started && strings.Contains(last, "starting main dispatch loop") {
				started = true
				close(ready)
			}
		}
	}()
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		<-ended
		_ = c.Wait() // killed
	})
	select {
	case <-ready:
	case <-ended:
		t.Fatalf("envoy ended: %s", last)
	case <-time.After(3 * time.Minute):
		t.Fatal("envoy did not start")
	}
	return c.Process
}
