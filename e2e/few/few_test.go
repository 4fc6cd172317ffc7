package few

import (
	"testing"

	"pgregory.net/rapid"
)

// TestRuns: a property runs as often as the test says, and as always after it.
func TestRuns(t *testing.T) {
	count := func(t *testing.T) (runs int) {
		rapid.Check(t, func(rt *rapid.T) {
			rapid.Int().Draw(rt, "n")
			runs++
		})
		return runs
	}
	before := count(t)
	t.Run("few", func(t *testing.T) {
		Runs(t, 7)
		Runs(t, 9) // the outer bound counts
		if got := count(t); got != 7 {
			t.Errorf("%d runs", got)
		}
	})
	if got := count(t); got != before || got == 7 {
		t.Errorf("%d runs afterwards, %d before", got, before)
	}
}
