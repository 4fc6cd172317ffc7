package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFrontUnderSanitizers runs the C front inside a host that is stricter than Envoy, see
// testdata/host/host.h. It runs every script of decisions, cut off before every step by a
// reset, a time-out or a new route table, and then many workers and resolvers at once, with
// verdicts that are proven, remembered and revoked. gcc's sanitizers check the memory
// accesses, and the host that no request is let through by what was revoked before it came.
func TestFrontUnderSanitizers(t *testing.T) {
	for _, sanitizer := range []string{"address,undefined", "thread"} {
		t.Run(sanitizer, func(t *testing.T) {
			t.Parallel()
			program := buildHost(t, sanitizer)
			out, err := runHost(t, program, "20000")
			if strings.Contains(out, "unexpected memory mapping") {
				// The kernel spreads addresses further than this sanitizer supports.
				out, err = runHost(t, "setarch", "--addr-no-randomize", program, "20000")
			}
			if err != nil || !strings.HasPrefix(out, "ok: ") {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Log(out)
		})
	}
}

func runHost(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	// The front itself counts leaks. The leak detector needs ptrace, which containers may
	// not have.
	cmd.Env = []string{"ASAN_OPTIONS=detect_leaks=0", "TSAN_OPTIONS=halt_on_error=1"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// buildHost compiles the front and its host with a sanitizer.
func buildHost(t *testing.T, sanitizer string) string {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.c", filepath.Join("testdata", "host", "*.c")} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	program := filepath.Join(t.TempDir(), "host")
	args := slices.Concat([]string{"-std=gnu11", "-O1", "-g", "-Wall", "-Werror", "-fno-sanitize-recover=all",
		"-fsanitize=" + sanitizer, "-I.", "-o", program}, files, []string{"-lpthread"})
	if out, err := exec.CommandContext(t.Context(), "gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return program
}
