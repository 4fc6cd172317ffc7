package dryrun_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/meshgate/meshgate/controlplane/dryrun"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/xds/resource"
)

// alike are gateways of two variants with many secrets, of which one begins to use another
// certificate.
func alike(gateways, secrets int) []publish.Foreseen {
	of := func(generation string) *resource.Set {
		all := map[string]string{}
		for i := range secrets {
			all[fmt.Sprint("gateway:certificate:", i)] = ""
		}
		all["gateway:certificate:0"] = generation
		return resource.NewSet(nil, all)
	}
	one, two, f := [2]*resource.Set{of("1"), of("2")}, [2]*resource.Set{of("1"), of("2")}, publish.Foreseen{}
	for i := range gateways {
		pair := one
		if i%2 == 1 {
			pair = two
		}
		f.Fates = append(f.Fates, publish.Fate{Node: fmt.Sprint("cp/default/", i), Before: pair[0], After: pair[1], Held: pair[0], Uncertain: i == 0})
	}
	return []publish.Foreseen{f}
}

// TestGroups: nodes with one fate are together, also those whose sets only have equal content, and
// those of which something is not certain are apart.
func TestGroups(t *testing.T) {
	counts, groups, err := dryrun.Grouped(t.Context(), alike(7, 3))
	if err != nil || groups != 2 || counts.Changed != 7 || counts.Uncertain != 1 {
		t.Errorf("%d groups, %+v, %v", groups, counts, err)
	}
	over, end := context.WithCancel(t.Context())
	end()
	if _, _, err := dryrun.Grouped(over, alike(2, 1)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("when the time is over: %v", err)
	}
}

// BenchmarkGroups is the work for 2,000 gateways with 5,000 certificates each.
func BenchmarkGroups(b *testing.B) {
	seen := alike(2000, 5000)
	for b.Loop() {
		if _, _, err := dryrun.Grouped(b.Context(), seen); err != nil {
			b.Fatal(err)
		}
	}
}
