package sidecar

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// passed are the reserved headers that inbounds let through, because gateways write them.
var passed = []string{"x-consumer-", "x-credential-", "x-authenticated-", "x-anonymous-consumer", "x-forwarded-", "x-real-ip", "forwarded"}

// spellings returns a name with each of its dashes as a dash or as an underscore.
func spellings(name string) []string {
	before, after, found := strings.Cut(name, "-")
	if !found {
		return []string{name}
	}
	var out []string
	for _, rest := range spellings(after) {
		out = append(out, before+"-"+rest, before+"_"+rest)
	}
	return out
}

func isClaimed(name string) bool {
	return slices.ContainsFunc(claimed, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// TestClaimedHeadersAreReserved: the two lists of headers that somebody may forge agree. Each
// reserved header is removed by inbounds in every spelling, or it is one of those that they let
// through.
func TestClaimedHeadersAreReserved(t *testing.T) {
	for _, prefix := range claimed {
		if !contract.IsReservedTrailer([]byte(prefix + "-x")) {
			t.Errorf("%s is not reserved", prefix)
		}
	}
	for _, r := range contract.ReservedHeaders {
		name := r.Name
		if r.Kept != "" && !r.HandingOver {
			name = r.Kept // of this family, only what the edge writes can be forged
		}
		for _, spelling := range spellings(name) {
			if lets := slices.Contains(passed, r.Name); isClaimed(spelling) == lets {
				t.Errorf("%s is removed: %t, want %t", spelling, lets, !lets)
			}
		}
	}
	for _, name := range passed {
		if !slices.ContainsFunc(contract.ReservedHeaders[:], func(r contract.Reserved) bool { return r.Name == name }) {
			t.Errorf("%s is no reserved header", name)
		}
	}
}
