package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

// buildRepeat compiles testdata/repeat.c with a sanitizer.
func buildRepeat(t *testing.T, sanitizer string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "repeat")
	if out, err := exec.CommandContext(t.Context(), "gcc", "-std=gnu11", "-O1", "-g", "-Wall", "-Werror", "-fno-sanitize-recover=all", "-fsanitize="+sanitizer,
		"-o", program, filepath.Join("testdata", "repeat.c"), "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// TestRememberedVerdicts: what makes a verdict void, what tells requests apart, and that a
// worker finds none that was revoked before it asked.
func TestRememberedVerdicts(t *testing.T) {
	for _, sanitizer := range []string{"address,undefined", "thread"} {
		t.Run(sanitizer, func(t *testing.T) {
			t.Parallel()
			program := buildRepeat(t, sanitizer)
			out, err := runHost(t, program)
			if strings.Contains(out, "unexpected memory mapping") {
				out, err = runHost(t, "setarch", "--addr-no-randomize", program)
			}
			if err != nil || out != "ok\n" {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}

// TestPlainPathsAreNoEndpoints: C takes no path for plain that is an endpoint of an OAuth
// server to the engine, or has a query.
func TestPlainPathsAreNoEndpoints(t *testing.T) {
	p, err := engine.Compile(&contract.Chain{Issues: true, Plugins: []contract.Plugin{{
		ID: "plugin", OAuth2: &contract.OAuth2{Header: "authorization", Endpoints: true},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	pieces := []string{"/", "//", "oauth2", "token", "authorize", "introspect", "revoke", ".well-known", "oauth-authorization-server", "a", "?", "#", "%2F", ".", "OAUTH2", "oauth2x"}
	random := rand.New(rand.NewPCG(1, 2))
	var paths []string
	for range 20000 {
		var b strings.Builder
		b.WriteByte('/')
		for range random.IntN(6) {
			b.WriteString(pieces[random.IntN(len(pieces))])
			if random.IntN(2) == 0 {
				b.WriteByte('/')
			}
		}
		if random.IntN(4) == 0 {
			b.WriteString("/oauth2/" + pieces[3+random.IntN(4)])
		}
		paths = append(paths, b.String())
	}
	var in bytes.Buffer
	for _, path := range paths {
		fmt.Fprintf(&in, "%04x%s", len(path), path)
	}
	cmd := exec.CommandContext(t.Context(), buildRepeat(t, "address,undefined"), "paths")
	cmd.Stdin, cmd.Env = &in, []string{"ASAN_OPTIONS=detect_leaks=0"}
	out, err := cmd.Output()
	if err != nil || len(out) != len(paths) {
		t.Fatalf("%d answers to %d paths: %v", len(out), len(paths), err)
	}
	plain, endpoints := 0, 0
	buf := make([]byte, engine.BufferSize)
	for i, path := range paths {
		v := p.Decide(&engine.Request{Path: []byte(path), Headers: make([][]byte, p.Early())}, unknowing{}, buf)
		if v.Action == engine.Issue {
			endpoints++
		}
		if out[i] == '1' {
			if plain++; v.Action == engine.Issue || strings.Contains(path, "?") {
				t.Errorf("%q is taken for plain", path)
			}
		}
	}
	if plain < 1000 || endpoints < 1000 {
		t.Errorf("%d plain paths, %d endpoints: the test says little", plain, endpoints)
	}
}

// unknowing knows no token.
type unknowing struct{}

func (unknowing) Lookup(contract.Hash, []byte) (int, contract.Answer) { return 0, contract.Unknown }
