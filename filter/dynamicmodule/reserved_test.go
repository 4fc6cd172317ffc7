package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// TestTablesAreGenerated: the committed tables are what go generate writes.
func TestTablesAreGenerated(t *testing.T) {
	for _, name := range []string{"reserved", "refusals"} {
		want, err := exec.Command("go", "run", name+"_gen.go").Output()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name + "_table.h")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("run go generate ./filter/dynamicmodule; it writes %s_table.h:\n%s", name, want)
		}
	}
}

// TestReservedAlike: C and Go remove the same headers.
func TestReservedAlike(t *testing.T) {
	program := filepath.Join(t.TempDir(), "reserved")
	if out, err := exec.Command("gcc", "-std=gnu11", "-O1", "-Wall", "-Werror", "-fsanitize=undefined,address",
		"-o", program, filepath.Join("testdata", "reserved.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	names := names()
	var in bytes.Buffer
	for _, n := range names {
		fmt.Fprintf(&in, "%04x%s", len(n), n)
	}
	cmd := exec.Command(program)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil || len(out) != len(names) {
		t.Fatalf("%d answers to %d names: %v", len(out), len(names), err)
	}
	removed := 0
	for i, n := range names {
		want := '0'
		if contract.IsReserved([]byte(n), false) {
			want++
			removed++
		}
		if contract.IsReserved([]byte(n), true) {
			want += 2
		}
		if contract.IsReservedTrailer([]byte(n)) {
			want += 4
		}
		if rune(out[i]) != want {
			t.Errorf("%q: C says %c, Go %c", n, out[i], want)
		}
	}
	if removed < len(names)/10 || removed > len(names)*9/10 {
		t.Errorf("of %d names %d are reserved: they show little", len(names), removed)
	}
}

// names returns header names near those of the list: each in random spellings, shortened,
// lengthened, and with single bytes changed.
func names() []string {
	r := rand.New(rand.NewPCG(1, 2))
	bases := []string{"", "x", "x-", "authorization", "x-request-id", "x-forwarded-for", "x-forwarded-client-cert", "x-envoy-external-address", "X_"}
	for _, l := range contract.ReservedHeaders {
		bases = append(bases, l.Name, l.Name+"id", l.Name+"a-b_c", l.Kept, strings.TrimSuffix(l.Name, "-"))
	}
	bases = append(bases, contract.IdentityHeaders[:]...)
	bases = append(bases, contract.OAuthHeaders...)
	var out []string
	for _, base := range bases {
		out = append(out, base)
		for range 200 {
			b := []byte(base)
			for i := range b {
				switch {
				case b[i] == '-' && r.IntN(3) == 0:
					b[i] = '_'
				case r.IntN(12) == 0:
					b[i] = bytes.ToUpper(b[i : i+1])[0]
				case r.IntN(60) == 0:
					b[i] = byte(r.IntN(256))
				}
			}
			switch r.IntN(6) {
			case 0:
				b = b[:r.IntN(len(b)+1)]
			case 1:
				b = append(b, strings.Repeat("x_", r.IntN(200))...)
			}
			out = append(out, string(b))
		}
	}
	return out
}
