package freshness

import (
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// emptied is a network that takes out of an Invalidate what it says. The frame
// follows what was applied, so the filter acknowledges it.
func emptied(kind contract.FrameType, body []byte) []byte {
	if kind != contract.FrameInvalidate {
		return body
	}
	m, err := contract.DecodeInvalidate(body)
	if err != nil {
		return body
	}
	m.Items = nil
	return m.Encode()
}

// revokes says whether a value in Redis takes something away.
func revokes(value string) bool {
	if _, err := contract.ParseTombstone([]byte(value)); err == nil {
		return true
	}
	floor, err := contract.ParseFloor([]byte(value))
	return err == nil && floor.Revision > 0
}

// seeded are parts that do not do what the others rely on.
var seeded = map[string]defects{
	"a network empties what it carries":            {mangle: emptied},
	"a redis confirms tombstones and forgets them": {forgets: revokes},
	"a redis goes back and has the same name":      {keepsName: true},
	"a control plane forgets by the wall clock":    {atItsWord: true},
	"a filter's clocks run at half their speed":    {slowClock: true},
}

// maxSearch bounds the orders in which a planted defect is looked for. The rarest, a control
// plane that forgets by the wall clock, is found in about the six hundredth.
const maxSearch = 2000

// TestPlantedDefectsAreFound: the property fails where one of the parts does not do
// what the others rely on. A scheduler that finds none of these would say nothing
// by finding nothing.
func TestPlantedDefectsAreFound(t *testing.T) {
	s, any := newSite(t), orders(some(all))
	for name, d := range seeded {
		t.Run(name, func(t *testing.T) {
			for i := range maxSearch {
				failure := inOrder(t, s, &tried{}, d, any.Example(i), nil)
				if failure == "" {
					continue
				}
				if !strings.Contains(failure, "had been answered with success") {
					t.Fatal(failure)
				}
				if sound := inOrder(t, s, &tried{}, defects{}, any.Example(i), nil); sound != "" {
					t.Errorf("it is found without the defect, too: %s", sound)
				}
				t.Logf("found in order %d: %s", i, failure)
				return
			}
			t.Errorf("not found in %d orders", maxSearch)
		})
	}
}
