// Package ci_test runs the scripts of CI over checks that do nothing, and holds
// what they say of checks that failed, or that could not be made.
package ci_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// checkout is a directory with some scripts of CI, and a Makefile of which each
// target is a line of shell.
func checkout(t *testing.T, targets map[string]string, scripts ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, ".ci"), 0o750); err != nil {
		t.Fatal(err)
	}
	for _, name := range scripts {
		data, err := os.ReadFile(filepath.Join("..", "..", ".ci", name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, ".ci", name), string(data))
	}
	var makefile strings.Builder
	for _, target := range []string{"test", "lint", "models", "smoke"} {
		line := targets[target]
		if line == "" {
			line = "true"
		}
		makefile.WriteString(target + ":\n\t@" + line + "\n")
	}
	write(t, filepath.Join(dir, "Makefile"), makefile.String())
	return dir
}

// write writes a program.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// run runs a script and returns its last lines, without how long anything took.
func run(t *testing.T, dir, script string, last int) (lines []string, good bool) {
	t.Helper()
	cmd := exec.Command(filepath.Join(dir, ".ci", script))
	cmd.Env = append(os.Environ(), "MAKEFLAGS=")
	out, err := cmd.CombinedOutput()
	if _, ended := err.(*exec.ExitError); err != nil && !ended { //nolint:errorlint // of Run itself
		t.Fatal(err)
	}
	lines = strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[max(0, len(lines)-last):], err == nil
}

// TestRunEndsWithWhatWasNotChecked: a check that was left out is no green one; so it
// stands where everybody looks, whether the rest is green or not, and that of an
// earlier run does not.
func TestRunEndsWithWhatWasNotChecked(t *testing.T) {
	const leavesOut = ".ci/not-checked 'the first thing: it is away' && .ci/not-checked 'the second thing'"
	for name, tc := range map[string]struct {
		targets map[string]string
		want    []string
		good    bool
	}{
		"all is checked":               {nil, []string{"CI: everything that was checked is green"}, true},
		"something is left out":        {map[string]string{"lint": leavesOut}, []string{"CI: everything that was checked is green", "NOT CHECKED: the first thing: it is away", "NOT CHECKED: the second thing"}, true},
		"and something else fails":     {map[string]string{"lint": leavesOut, "smoke": "false"}, []string{"CI: failed", "NOT CHECKED: the first thing: it is away", "NOT CHECKED: the second thing"}, false},
		"the first check fails":        {map[string]string{"test": "false", "lint": leavesOut}, []string{"CI: failed"}, false},
		"a check is ended by a signal": {map[string]string{"test": "kill -TERM $$PPID"}, []string{"CI: failed"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := checkout(t, tc.targets, "run", "not-checked")
			write(t, filepath.Join(dir, ".tools", "not-checked"), "something of an earlier run\n")
			got, good := run(t, dir, "run", len(tc.want))
			if strings.Join(got, "\n") != strings.Join(tc.want, "\n") || good != tc.good {
				t.Errorf("it ended with\n%s\nand green: %t; want\n%s", strings.Join(got, "\n"), good, strings.Join(tc.want, "\n"))
			}
		})
	}
}

// TestOnlyAnUnreachableDatabaseIsTolerated: findings, and any other failure, fail the
// check, also where they mention the network.
func TestOnlyAnUnreachableDatabaseIsTolerated(t *testing.T) {
	const away = "govulncheck: fetching vulnerabilities: Get \"https://vuln.example\": dial tcp: lookup vuln.example: no such host"
	const reset = "govulncheck: fetching vulnerabilities: Get \"https://vuln.example\": read tcp 127.0.0.1:1->127.0.0.1:2: read: connection reset by peer"
	for name, tc := range map[string]struct {
		text string
		code string
		last string
		good bool
	}{
		"nothing found":             {"No vulnerabilities found.", "0", "No vulnerabilities found.", true},
		"the database is away":      {away, "1", "NOT CHECKED: known vulnerabilities of dependencies: the database of govulncheck cannot be reached from here", true},
		"the database breaks off":   {reset, "1", "NOT CHECKED: known vulnerabilities of dependencies: the database of govulncheck cannot be reached from here", true},
		"a finding":                 {"Vulnerability #1", "3", "Vulnerability #1", false},
		"a finding of the network":  {away, "3", away, false},
		"another failure":           {"govulncheck: loading packages", "1", "govulncheck: loading packages", false},
		"a failure with more to it": {"a\nb\n" + away, "1", away, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := checkout(t, nil, "vulnerabilities", "not-checked")
			write(t, filepath.Join(dir, ".tools", "bin", "govulncheck"), "#!/bin/sh\ncat <<'END'\n"+tc.text+"\nEND\nexit "+tc.code+"\n")
			got, good := run(t, dir, "vulnerabilities", 1)
			if got[0] != tc.last || good != tc.good {
				t.Errorf("%q, green: %t; want %q", got[0], good, tc.last)
			}
		})
	}
}
