package revoke

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/meshgate/meshgate/filter/contract"
)

// TestAnotherVersionIsOneReason: a filter of another version is refused with the same text,
// whichever version it reports. Texts that differ would each create a new refusal.
func TestAnotherVersionIsOneReason(t *testing.T) {
	var reasons []string
	tweak := func(o *Options) {
		o.Refused = func(_ Node, reason string) { reasons = append(reasons, reason) }
	}
	virtually(t, tweak, func(t *testing.T, w *world, _ *scripted) {
		for _, version := range []int{0, contract.LinkVersion - 1, contract.LinkVersion + 1, 1 << 30} {
			hello, err := contract.EncodeJSON(contract.Hello{Version: version, Instance: "i"})
			if err != nil {
				t.Fatal(err)
			}
			f := w.dial("a")
			f.send(contract.FrameHello, hello)
			synctest.Wait()
			f.cut()
		}
	})
	if len(reasons) != 4 || len(slices.Compact(reasons)) != 1 {
		t.Errorf("refused because of %q", reasons)
	}
}
