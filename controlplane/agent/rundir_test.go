package agent

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/filter/contract"
)

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

// TestConfigurationOfAnotherMode: what was said for another mode of the filter is not used at a
// start without the control plane.
func TestConfigurationOfAnotherMode(t *testing.T) {
	d, err := runDirOf(t.TempDir(), "gw")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.make(); err != nil {
		t.Fatal(err)
	}
	for i, step := range []struct {
		mode contract.Mode
		kept bool
	}{{contract.ModeModule, true}, {contract.ModeExtAuthz, false}, {contract.ModeExtAuthz, true}, {contract.ModeModule, false}, {contract.ModeModule, true}} {
		if err := os.WriteFile(d.cache, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := d.noteMode(step.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(d.cache); (err == nil) != step.kept {
			t.Errorf("start %d, mode %s: %v", i, step.mode, err)
		}
	}
}

// TestRunDirModes: only the owner can read tokens and keys, whatever modes there were
// before.
func TestRunDirModes(t *testing.T) {
	stateDir := shortDir(t)
	d, err := runDirOf(stateDir, "gw")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(d.path, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{d.settings, d.settings + ".new", d.bootstrap + ".new"} {
		if err := os.WriteFile(f, []byte("from before, and longer than what comes"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.make(); err != nil {
		t.Fatal(err)
	}
	a := &Agent{Options: Options{CAFile: "/etc/ca.pem", TokenFile: "/etc/token", Cache: contract.CacheSettings{MaxBytes: 7}}, dir: d, host: "cp:5678"}
	if err := d.write(a, &enrol.Answer{Node: "cp/default/gw"}); err != nil {
		t.Fatal(err)
	}
	if got := mode(t, d.path); got != 0o700 {
		t.Errorf("the directory has %o", got)
	}
	for _, f := range []string{d.settings, d.bootstrap} {
		if got := mode(t, f); got != 0o600 {
			t.Errorf("%s has %o", f, got)
		}
	}
	left, err := filepath.Glob(filepath.Join(d.path, "*.new"))
	if err != nil || left != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestSettings checks the settings that the filter reads.
func TestSettings(t *testing.T) {
	_, d := newRunDir(t)
	a := &Agent{Options: Options{CAFile: "/etc/ca.pem", TokenFile: "/etc/token", Cache: contract.CacheSettings{MaxBytes: 7}}, dir: d, host: "cp:5678"}
	if err := d.write(a, &enrol.Answer{Node: "cp/default/gw"}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(d.settings)
	if err != nil {
		t.Fatal(err)
	}
	var got contract.Settings
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	want := contract.Settings{
		Cache:        contract.CacheSettings{MaxBytes: 7},
		ControlPlane: &contract.ControlPlaneSettings{Address: "cp:5678", CAFile: d.roots, TokenFile: "/etc/token", Node: "cp/default/gw"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	boot, err := os.ReadFile(d.bootstrap)
	if err != nil || !strings.Contains(string(boot), d.relay) || !strings.Contains(string(boot), d.admin) {
		t.Errorf("the bootstrap names no sockets: %v\n%s", err, boot)
	}
}

// TestEnrolled: every file that a start without the control plane reads is required.
func TestEnrolled(t *testing.T) {
	_, d := newRunDir(t)
	for _, f := range []string{d.bootstrap, d.settings, d.cache} {
		if d.enrolled() {
			t.Errorf("enrolled without %s", f)
		}
		if err := replace(f, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if !d.enrolled() {
		t.Error("not enrolled with every file")
	}
}
