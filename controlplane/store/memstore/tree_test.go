package memstore

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestTree compares a tree with a map, and checks that older trees do not change.
func TestTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringOfN(rapid.RuneFrom([]rune("ab\x00")), 0, 4, -1)
		var now, old tree[int]
		want, was := map[string]int{}, map[string]int{}
		for i := range rapid.IntRange(1, 60).Draw(t, "writes") {
			if i == 30 {
				old, was = now, maps.Clone(want)
			}
			k := key.Draw(t, "key")
			if rapid.IntRange(0, 2).Draw(t, "op") == 0 {
				now = now.without(k)
				delete(want, k)
			} else {
				now = now.with(k, i)
				want[k] = i
			}
		}
		from := key.Draw(t, "from")
		for _, c := range []struct {
			tree tree[int]
			want map[string]int
		}{{now, want}, {old, was}} {
			keys := []string{}
			c.tree.ascend(from, func(k string, v int) bool {
				keys = append(keys, k)
				if got, ok := c.tree.get(k); !ok || got != v || v != c.want[k] {
					t.Fatalf("%q: visited %d, got %d, want %d", k, v, got, c.want[k])
				}
				return true
			})
			expect := slices.DeleteFunc(slices.AppendSeq([]string{}, maps.Keys(c.want)), func(k string) bool { return k < from })
			slices.Sort(expect)
			if diff := cmp.Diff(expect, keys); diff != "" {
				t.Fatalf("from %q (-want +got):\n%s", from, diff)
			}
		}
	})
}
