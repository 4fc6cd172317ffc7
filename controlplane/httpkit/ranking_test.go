package httpkit

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// TestRanking: after any changes, no address has more than the first, and nothing is kept
// about addresses that have none.
func TestRanking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, have := newRanking(), map[netip.Prefix]int{}
		for _, step := range rapid.SliceOf(rapid.IntRange(-5, 5)).Draw(t, "steps") {
			at := netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(max(step, -step))}), 32)
			switch {
			case step >= 0:
				have[at]++
				r.more(at)
			case have[at] > 0:
				if have[at]--; have[at] == 0 {
					delete(have, at)
				}
				r.less(at)
			}
			most := 0
			for _, n := range have {
				most = max(most, n)
			}
			if most > 0 && have[r.first()] != most {
				t.Fatalf("%s has %d, others have up to %d", r.first(), have[r.first()], most)
			}
			if len(r.at) != len(have) || len(r.levels) > len(have) {
				t.Fatalf("%d addresses at %d levels, of %d", len(r.at), len(r.levels), len(have))
			}
		}
	})
}
