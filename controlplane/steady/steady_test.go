package steady

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// hand is a wall clock that a test sets, with an elapsed time that only runs.
type hand struct {
	elapsed, offset time.Duration
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (h *hand) read() (time.Time, time.Duration) {
	return epoch.Add(h.elapsed + h.offset), h.elapsed
}

// TestClockThatOnlyRuns: a clock that is never set has the same earliest and latest time.
func TestClockThatOnlyRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(nil)
		for range 100 {
			time.Sleep(time.Hour)
			if now := time.Now(); !c.Now().Equal(now) || !c.Earliest().Equal(now) || !c.Latest().Equal(now) || c.Moved() != 0 {
				t.Fatalf("at %v it is %v, from %v to %v", now, c.Now(), c.Earliest(), c.Latest())
			}
		}
	})
}

// TestSettingsCountForAWindow: a setting of the clock counts until the clock left it a
// window ago.
func TestSettingsCountForAWindow(t *testing.T) {
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name                    string
		to                      time.Duration
		earliest, latest, moved time.Duration // from where it would be, right after the setting
	}{
		{"ahead", 3 * day, 0, 3 * day, 3 * day},
		{"back", -3 * day, -3 * day, 0, -3 * day},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &hand{}
			c := New(h.read)
			h.elapsed, h.offset = time.Hour, tt.to
			right := epoch.Add(h.elapsed)
			if c.Earliest().Sub(right) != tt.earliest || c.Latest().Sub(right) != tt.latest || c.Moved() != tt.moved {
				t.Errorf("from %v to %v, moved by %v", c.Earliest().Sub(right), c.Latest().Sub(right), c.Moved())
			}
			h.offset = 0
			h.elapsed += Window
			right = epoch.Add(h.elapsed)
			if c.Earliest().Sub(right) != tt.earliest || c.Latest().Sub(right) != tt.latest {
				t.Errorf("after a window from %v to %v", c.Earliest().Sub(right), c.Latest().Sub(right))
			}
			h.elapsed += 2 * time.Hour
			right = epoch.Add(h.elapsed)
			if !c.Earliest().Equal(right) || !c.Latest().Equal(right) || c.Moved() != 0 {
				t.Errorf("later from %v to %v", c.Earliest().Sub(right), c.Latest().Sub(right))
			}
		})
	}
}

// TestSettingIsAdopted: a clock that stays at its new setting is believed after a window.
func TestSettingIsAdopted(t *testing.T) {
	h := &hand{}
	c := New(h.read)
	h.offset = 48 * time.Hour
	for range slots {
		c.Now()
		h.elapsed += time.Hour
	}
	if wall := c.Now(); !c.Earliest().Equal(wall) || !c.Latest().Equal(wall) {
		t.Errorf("from %v to %v at %v", c.Earliest(), c.Latest(), wall)
	}
}

// TestLongLivesOutlastTheWindow: a life longer than a window, dated by one setting of the
// clock, is still judged by that setting when the clock left it more than a window ago.
func TestLongLivesOutlastTheWindow(t *testing.T) {
	h := &hand{}
	c := New(h.read)
	const life = Window + 5*time.Hour
	ends := c.LatestFor(life).Add(life)
	h.offset = 100 * time.Hour
	for range slots + 1 {
		c.Now()
		h.elapsed += time.Hour
	}
	if c.Earliest().Before(ends) {
		t.Fatal("the setting is not forgotten, and the test says nothing")
	}
	if !c.EarliestFor(life).Before(ends) {
		t.Errorf("what was to last %v is over after %v", life, h.elapsed)
	}
	h.elapsed = life
	if c.EarliestFor(life).Before(ends) {
		t.Errorf("what was to last %v is not over then", life)
	}
}

// TestSpansAreNotCutShort: no matter how and when the clock is set, a span dated by
// LatestFor has not ended by EarliestFor before it has passed, even if it is several windows
// long. The bounds include the clock itself, and what it would say if it had not been set.
func TestSpansAreNotCutShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &hand{}
		c := New(h.read)
		type dated struct {
			at   time.Duration
			ends time.Time
			span time.Duration
		}
		var all []dated
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				h.offset += time.Duration(rapid.Int64Range(-int64(100*time.Hour), int64(100*time.Hour)).Draw(t, "set"))
			case 1:
				h.elapsed += time.Duration(rapid.Int64Range(0, int64(30*time.Hour)).Draw(t, "passes"))
			case 2:
				h.elapsed += time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "passes"))
			case 3:
				span := time.Duration(rapid.Int64Range(0, int64(5*Window)).Draw(t, "span"))
				all = append(all, dated{h.elapsed, c.LatestFor(span).Add(span), span})
			}
			if wall := c.Now(); c.Earliest().After(wall) || c.Latest().Before(wall) {
				t.Fatalf("it is from %v to %v at %v", c.Earliest(), c.Latest(), wall)
			}
			for _, d := range all {
				if passed := h.elapsed - d.at; !c.EarliestFor(d.span).Before(d.ends) && passed < d.span {
					t.Fatalf("what was to last %v is over after %v", d.span, passed)
				}
			}
		}
	})
}

// TestElapsed: no setting of the wall clock counts as time that has passed.
func TestElapsed(t *testing.T) {
	h := &hand{}
	c := New(h.read)
	before := c.Elapsed()
	h.offset = 48 * time.Hour
	h.elapsed += time.Minute
	if got := c.Elapsed() - before; got != time.Minute {
		t.Errorf("%v", got)
	}
}
