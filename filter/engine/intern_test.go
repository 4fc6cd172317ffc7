package engine_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/meshgate/meshgate/filter/engine"
)

func chainBytes(service int) []byte {
	return fmt.Appendf(nil, `{"route":"r","service":"s%d","plugins":[{"id":"p","oauth2":{"header":"authorization"}}]}`, service)
}

func TestInternerSharesAndForgets(t *testing.T) {
	in := engine.NewInterner()
	a, b, c := in.Acquire(chainBytes(1)), in.Acquire(chainBytes(1)), in.Acquire(chainBytes(2))
	if a.Program() != b.Program() || a.Program() == c.Program() {
		t.Error("equal chains must share a program, others must not")
	}
	if in.Len() != 2 {
		t.Errorf("%d entries, want 2", in.Len())
	}
	a.Release()
	a.Release() // must not take b's reference
	if in.Len() != 2 {
		t.Errorf("%d entries after one of two releases, want 2", in.Len())
	}
	b.Release()
	c.Release()
	if in.Len() != 0 {
		t.Errorf("%d entries after all releases, want 0", in.Len())
	}
	if a.Program().Headers()[0] != "authorization" {
		t.Error("a request under way lost its program")
	}
	d := in.Acquire(chainBytes(1))
	a.Release()
	if in.Len() != 1 {
		t.Error("an old reference released a new entry")
	}
	d.Release()
}

func TestInternerKeepsBrokenChains(t *testing.T) {
	in := engine.NewInterner()
	for _, chain := range []string{"", "{}", `{"plugins":[{"id":"p","oauth2":{"header":"x-consumer-id"}}]}`} {
		r := in.Acquire([]byte(chain))
		if r.Program().Fault() == "" {
			t.Errorf("%q compiled", chain)
		}
		r.Release()
	}
	if in.Len() != 0 {
		t.Errorf("%d entries are left", in.Len())
	}
}

func TestInternerConcurrently(t *testing.T) {
	in := engine.NewInterner()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 500 {
				n := (g + i) % 3
				r := in.Acquire(chainBytes(n))
				if r.Program().Fault() != "" {
					t.Errorf("chain %d: %s", n, r.Program().Fault())
				}
				r.Release()
			}
		})
	}
	wg.Wait()
	if in.Len() != 0 {
		t.Errorf("%d entries are left", in.Len())
	}
}
