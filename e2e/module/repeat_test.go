package module

import (
	"encoding/binary"
	"net/http"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/filtertest"
)

// forgetful is the environment of an Envoy whose filter remembers no verdicts.
var forgetful = []string{contract.RememberEnv + "=false"}

// repeats returns how many requests remembered verdicts have answered, without Go: the
// library's meshgate_repeaters, one for each worker.
func (w *world) repeats(t *testing.T) (n uint64) {
	t.Helper()
	var all [64][8]uint64
	buf := make([]byte, binary.Size(all))
	w.peek(t, "meshgate_repeaters", buf)
	if _, err := binary.Decode(buf, binary.NativeEndian, &all); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		n += all[i][0]
	}
	return n
}

// TestRepeatedCredentialIsAnsweredFromMemory: with every request answered the same, the C
// front answers what Go has proven, until the token is revoked. Each request is counted once,
// whoever answers it.
func TestRepeatedCredentialIsAnsweredFromMemory(t *testing.T) {
	for name, env := range map[string][]string{"remembered": nil, "not remembered": forgetful} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, options{linked: true, env: env})
			sent := uint64(0)
			get := func() answer { sent++; return w.get(t, "/", "Authorization", bearer) }
			counted := func() (n uint64) {
				for _, name := range []string{"hits", "negative_hits", "misses", "bypassed"} {
					n += uint64(max(0, w.stat(t, ".*cache_"+name+"_total")))
				}
				return n
			}
			remembers := env == nil
			before := w.repeats(t)
			eventually(t, "every request is counted once", func() bool {
				if a := get(); a.status != http.StatusOK {
					t.Fatalf("%+v", a)
				}
				n := counted()
				if n > sent {
					t.Fatalf("%d requests are counted as %d", sent, n)
				}
				// Nothing is answered from memory before the filter has a lease, which may come later.
				return n == sent && w.stat(t, ".*cache_hits_total") > 3 && (!remembers || w.repeats(t) > before)
			})
			hits, repeats := uint64(w.stat(t, ".*cache_hits_total")), w.repeats(t)-before
			if remembers != (repeats > 0) || repeats >= hits {
				t.Errorf("of %d hits memory has answered %d", hits, repeats)
			}
			w.plane.revoke(&filtertest.Token{Value: goodToken})
			repeats = w.repeats(t)
			for range 3 {
				if a := get(); a.status != http.StatusUnauthorized {
					t.Errorf("revoked: %+v", a)
				}
			}
			if n := w.repeats(t); n != repeats {
				t.Errorf("memory has answered %d requests for a revoked token", n-repeats)
			}
		})
	}
}
