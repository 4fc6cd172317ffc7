package changes_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/changes"
)

// TestDifferencesAreCheap: resources are compared while nobody else can write, so a writer
// of a large resource must not delay all others, no matter what it looks like.
func TestDifferencesAreCheap(t *testing.T) {
	list := func(n, of int) any {
		out := make([]int, n)
		for i := range out {
			out[i] = of
		}
		return out
	}
	named := func(n, of int) map[string]int {
		out := make(map[string]int, n)
		for i := range n {
			out[fmt.Sprintf("%d-%d", of, i)] = i
		}
		return out
	}
	key := strings.Repeat("k", 200_000)
	for name, c := range map[string]struct {
		of [2]any
		// most bounds what the comparison may allocate, in MiB. It is one and a half times
		// the actual amount.
		most uint64
	}{
		"long lists":           {[2]any{map[string]any{"l": list(300_000, 1)}, map[string]any{"l": list(300_000, 2)}}, 300},
		"many names":           {[2]any{named(50_000, 1), named(50_000, 2)}, 75},
		"much below long name": {[2]any{map[string]any{key: named(30_000, 1)}, map[string]any{key: named(30_000, 2)}}, 52},
		"only new":             {[2]any{nil, map[string]any{key: named(30_000, 2)}}, 25},
	} {
		t.Run(name, func(t *testing.T) {
			var texts [2]string
			for i, v := range c.of {
				raw, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				texts[i] = string(raw)
			}
			old, now := of(t, open, strings.Replace(texts[0], "null", "", 1)), of(t, open, texts[1])
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := time.Now()
			d, err := changes.Between(old, now)
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			if err != nil || len(d.Members)+d.More == 0 {
				t.Errorf("%d members and %d more: %v", len(d.Members), d.More, err)
			}
			// Quadratic work takes minutes on any machine.
			if grown := (after.TotalAlloc - before.TotalAlloc) >> 20; grown > c.most || took > time.Minute {
				t.Errorf("it took %s and %d MiB, more than %d", took, grown, c.most)
			} else {
				t.Logf("%s, %d MiB", took, grown)
			}
		})
	}
}
