package steadytest

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestHand: a process believes a wall clock only within bounds, and one that believes it as
// it is follows every setting. The next process starts with what the clock says then.
func TestHand(t *testing.T) {
	for _, word := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := &Hand{AtItsWord: word}
			c := h.Begin()
			h.Set(48 * time.Hour)
			time.Sleep(time.Hour)
			ahead := time.Duration(0)
			if word {
				ahead = 48 * time.Hour
			}
			if got := time.Until(c.Earliest()); got != ahead || !h.Past().Equal(c.Earliest()) {
				t.Errorf("at its word %v: the earliest time is %v ahead, rows end by %v", word, got, h.Past())
			}
			if got := time.Until(c.Latest()); got != 48*time.Hour || !h.Now().Equal(c.Latest()) {
				t.Errorf("at its word %v: the latest time is %v ahead", word, got)
			}
			if got := time.Until(h.Begin().Earliest()); got != 48*time.Hour {
				t.Errorf("at its word %v: the next process begins %v ahead", word, got)
			}
		})
	}
}
