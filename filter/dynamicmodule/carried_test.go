package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// TestCarriedNamesAreTheContracts: the front reads what the contract writes.
func TestCarriedNamesAreTheContracts(t *testing.T) {
	source, err := os.ReadFile("carried.c")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		fmt.Sprintf("namespace = LITERAL(%q)", contract.MetadataNamespace),
		fmt.Sprintf("key_filter = LITERAL(%q)", contract.MetaFilter),
		fmt.Sprintf("no_chain = LITERAL(%q)", contract.NoChain),
		fmt.Sprintf("marked_chains = LITERAL(%q)", contract.MarkedChains),
		fmt.Sprintf("plain_chains = LITERAL(%q)", contract.PlainChains),
	} {
		if !bytes.Contains(source, []byte(text)) {
			t.Errorf("carried.c does not say %s", text)
		}
	}
}

// cutPaths has the front cut paths, each as the route beside it says.
func cutPaths(t *testing.T, pairs [][2]string) []string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "cut")
	if out, err := exec.CommandContext(t.Context(), "gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Werror", "-fno-sanitize-recover=all",
		"-fsanitize=address,undefined", "-o", program, filepath.Join("testdata", "cut.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var in bytes.Buffer
	for _, p := range pairs {
		fmt.Fprintf(&in, "%04x%s%04x%s", len(p[0]), p[0], len(p[1]), p[1])
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Stdin, cmd.Env = &in, []string{"ASAN_OPTIONS=detect_leaks=0"}
	out, err := cmd.Output()
	answers := strings.Split(string(out), "\x00")
	if err != nil || len(answers) != len(pairs)+1 {
		t.Fatalf("%d answers to %d paths: %v", len(answers), len(pairs), err)
	}
	return answers[:len(pairs)]
}

// cutBySpec does what the expressions of a route without a chain do in Envoy.
func cutBySpec(prefix, base, path string) string {
	bare := path
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		bare = path[:i]
	}
	quoted := regexp.QuoteMeta(prefix)
	if base == "" {
		return regexp.MustCompile(`(?s)^`+quoted+`(?:\.\.?(?:/|$))?/?(.*)$`).ReplaceAllString(bare, `/${1}`) + path[len(bare):]
	}
	return regexp.MustCompile(`(?s)^(?:`+quoted+`(?:\.\.?)?$|(/)`+regexp.QuoteMeta(prefix[1:])+`(?:\.\.?/)?/?(.*)$)`).
		ReplaceAllString(bare, base+`${1}${2}`) + path[len(bare):]
}

// TestPathsAreCutAsByEnvoy compares with the expressions that strip the paths of routes
// without a chain.
func TestPathsAreCutAsByEnvoy(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"/", "/", ".", "..", "...", "a", "b.c", "?", "#", "%2F", "?a=/../", "é", ";"}
	var pairs [][2]string
	var want []string
	shapes := map[string]int{}
	for range 20000 {
		prefix := []string{"/a", "/a.b/c", "/é"}[random.IntN(3)]
		base := []string{"", "/s", "/s/t.u"}[random.IntN(3)]
		path := prefix
		for range random.IntN(6) {
			path += pieces[random.IntN(len(pieces))]
		}
		said := contract.Carried{Strip: &contract.Strip{Prefix: len(prefix), Base: base}}.String()
		pairs = append(pairs, [2]string{said[32:], path})
		want = append(want, cutBySpec(prefix, base, path))
		shapes[path[len(prefix):min(len(path), len(prefix)+2)]]++
	}
	for i, got := range cutPaths(t, pairs) {
		if got != want[i] {
			t.Errorf("%q of %q: %q, want %q", pairs[i][0], pairs[i][1], got, want[i])
		}
	}
	for _, shape := range []string{"", "/", "//", "..", "./", "a", "?", "?a"} {
		if shapes[shape] < 20 {
			t.Errorf("only %d paths go on with %q", shapes[shape], shape)
		}
	}
}

// TestWhatCannotBeCutIsRefused: the front takes nothing for a cut that is none, and cuts no
// more than there is.
func TestWhatCannotBeCutIsRefused(t *testing.T) {
	var pairs [][2]string
	for _, said := range []string{"", " ", "2", " x", " /s", " -1/s", " 2s", " 2 /s", "  2/s", " 9/s", " 99999999999999999999999/s"} {
		pairs = append(pairs, [2]string{said, "/a/b"})
	}
	pairs = append(pairs, [2]string{" 3/s", "/a?bcd"}, [2]string{" 1/s", ""})
	for i, got := range cutPaths(t, pairs) {
		if got != "-" {
			t.Errorf("%q of %q: %q", pairs[i][0], pairs[i][1], got)
		}
	}
}
