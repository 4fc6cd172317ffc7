package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAttacks compares the table of attacks in SECURITY.md with the code: each row names at least one test,
// and each file that it names has the tests that follow it.
func TestAttacks(t *testing.T) {
	const root = "../../.."
	text, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n| attack | tests |\n|---|---|\n")
	if !found {
		t.Fatal("there is no table of attacks")
	}
	rows := 0
	for row := range strings.SplitSeq(table, "\n") {
		if !strings.HasPrefix(row, "| ") {
			break
		}
		rows++
		tried(t, root, row)
	}
	if rows < 21 {
		t.Errorf("the table has %d rows", rows)
	}
}

// tried fails for a row that names no test, or one that does not exist.
func tried(t *testing.T, root, row string) {
	t.Helper()
	var file string
	var declares []string
	tests := 0
	for _, m := range quoted.FindAllStringSubmatch(row, -1) {
		switch name := m[1]; {
		case strings.HasSuffix(name, "_test.go"):
			file, declares = name, declared(t, filepath.Join(root, name))
		case !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") || !slices.Contains(declares, name):
			t.Errorf("%q has no test %s:\n%s", file, name, row)
		default:
			tests++
		}
	}
	if tests == 0 {
		t.Errorf("no test tries it:\n%s", row)
	}
}
