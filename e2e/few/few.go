// Package few bounds how many random runs a property test makes, unless the command says it with
// -rapid.checks.
package few

import (
	"flag"
	"strconv"
	"testing"
)

// checks is the flag of rapid with the number of runs of each property.
const checks = "rapid.checks"

// Runs bounds the runs of the properties of a test. Tests that run at the same time share the bound.
func Runs(t testing.TB, most int) {
	f := flag.Lookup(checks)
	if f.Value.String() != f.DefValue {
		return // the command, or a test around this one, has said it
	}
	if err := f.Value.Set(strconv.Itoa(most)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
}

// UnderRace bounds the runs under the race detector, where each takes many times as long. Without the
// detector there are as many as ever.
func UnderRace(t testing.TB, most int) {
	if race {
		Runs(t, most)
	}
}
