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

// paths are made of pieces at random.
func paths(random *rand.Rand, n int) []string {
	pieces := []string{"/", "//", "oauth2", "token", "authorize", "introspect", "revoke", ".well-known", "oauth-authorization-server", "a", "?", "#", "%2F", ".", "OAUTH2", "oauth2x"}
	pairs := []string{"access_token", "access_toke%6e", "Access_Token", "apikey", "APIKey", "x", "=", "=good", "=bad", "&apikey=good&", "&access_token=good&", "&", "&", ";", "+", "%20", "a%"}
	all := make([]string, n)
	for i := range all {
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
		if random.IntN(2) == 0 {
			b.WriteByte('?')
			for range random.IntN(8) {
				b.WriteString(pairs[random.IntN(len(pairs))])
			}
		}
		all[i] = b.String()
	}
	return all
}

// TestPlainPathsAreNoEndpoints: C takes no path for plain that is an endpoint of an OAuth
// server to the engine, and ignores no query in which the engine finds anything.
func TestPlainPathsAreNoEndpoints(t *testing.T) {
	p, err := engine.Compile(&contract.Chain{Issues: true, Plugins: []contract.Plugin{
		{ID: "key", KeyAuth: &contract.KeyAuth{Names: []string{"apikey"}, InQuery: true, Anonymous: &contract.Anonymous{}}},
		{ID: "token", OAuth2: &contract.OAuth2{Header: "authorization", Endpoints: true}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	all := paths(rand.New(rand.NewPCG(1, 2)), 40000)
	var in bytes.Buffer
	for _, path := range all {
		fmt.Fprintf(&in, "%04x%s", len(path), path)
	}
	cmd := exec.CommandContext(t.Context(), buildRepeat(t, "address,undefined"), append([]string{"paths"}, p.QueryNames()...)...)
	cmd.Stdin, cmd.Env = &in, []string{"ASAN_OPTIONS=detect_leaks=0"}
	out, err := cmd.Output()
	if err != nil || len(out) != len(all) {
		t.Fatalf("%d answers to %d paths: %v", len(out), len(all), err)
	}
	decide := func(path string) engine.Verdict {
		v := p.Decide(&engine.Request{Path: []byte(path), Headers: make([][]byte, p.Early())}, unknowing{}, make([]byte, engine.BufferSize))
		v.Refusal, v.Hash = nil, contract.Hash{}
		return v
	}
	plain, counting, endpoints, credentials := 0, 0, 0, 0
	for i, path := range all {
		bare, _, queried := strings.Cut(path, "?")
		v, without := decide(path), decide(bare)
		if v.Action == engine.Issue {
			endpoints++
		}
		if v != without {
			credentials++
		}
		switch {
		case out[i] == '0':
		case without.Action == engine.Issue:
			t.Errorf("%q is taken for plain", path)
		case out[i] == '2':
			counting++
		case queried && v != without:
			t.Errorf("the query of %q is ignored: %+v, without it %+v", path, v, without)
		default:
			plain++
		}
	}
	if min(plain, counting, endpoints, credentials) < 1000 {
		t.Errorf("%d plain paths, %d with queries that count, %d endpoints, %d with something in the query: the test says little", plain, counting, endpoints, credentials)
	}
}

// unknowing cannot tell.
type unknowing struct{}

func (unknowing) Lookup(contract.Hash, []byte) (int, contract.Answer) { return 0, contract.Miss }
