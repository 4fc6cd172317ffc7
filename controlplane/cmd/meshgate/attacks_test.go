package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// holes are the classes of holes against which there has to be a test.
var holes = []string{
	"what is shown is not guarded", "what others have is handed out", "failing open", "secrets in public", "a name is read as a pattern", "a pattern is not bounded",
	"strangers end or fill the process", "a token is good for more than it says", "what a peer says of itself is believed", "a check is forgotten", "this machine is trusted through others",
	"the wrong algorithm is believed", "a name is read as its beginning", "what is changed is believed", "a check is passed by", "requests to places within",
}

// TestAttacks compares the table of attacks in SECURITY.md with the code: each row says which hole it is
// about and names at least one test, each file that it names has the tests that follow it, and each hole
// has a row.
func TestAttacks(t *testing.T) {
	const root = "../../.."
	text, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n| hole | attack | tests |\n|---|---|---|\n")
	if !found {
		t.Fatal("there is no table of attacks")
	}
	rows, covered := 0, map[string]bool{}
	for row := range strings.SplitSeq(table, "\n") {
		if !strings.HasPrefix(row, "| ") {
			break
		}
		rows++
		hole, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		if covered[hole] = true; !slices.Contains(holes, hole) {
			t.Errorf("the hole %q is not known:\n%s", hole, row)
		}
		tried(t, root, row)
	}
	if rows < 21 {
		t.Errorf("the table has %d rows", rows)
	}
	for _, hole := range holes {
		if !covered[hole] {
			t.Errorf("no row is about this hole: %s", hole)
		}
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
