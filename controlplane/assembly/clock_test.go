package assembly

import (
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/steady"
)

// TestClockThatWasSet: a clock that was set is a condition at once, with a text that says how
// it ends. A request after its end finds the condition good. The log has one line for its
// beginning and one for its end.
func TestClockThatWasSet(t *testing.T) {
	cp, log := stateOf(t, t.TempDir())
	cp.ready.serving.Store(true)
	wall, elapsed := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), time.Duration(0)
	c := newClocks(cp.ready.conditions, steady.New(func() (time.Time, time.Duration) { return wall, elapsed }))
	passes := func(d time.Duration) { wall, elapsed = wall.Add(d), elapsed+d }
	for _, tt := range []struct {
		set    time.Duration
		reason string
		says   string
	}{{9 * time.Minute, "", ""}, {2 * time.Minute, "set_ahead", "set ahead by 11m0s"}, {-48 * time.Hour, "set_back", "set back by 48h0m0s"}} {
		wall = wall.Add(tt.set)
		c.judge()
		c.redisAhead(time.Minute)
		_, a := readyOf(t, cp)
		if got := conditionOf(a, conditionClock); tt.reason != "" && (got.Reason != tt.reason || !strings.Contains(got.Text, tt.says)) {
			t.Errorf("set by %v: %+v", tt.set, got)
		} else if tt.reason == "" && got.Reason != "redis_ahead" {
			t.Errorf("set by %v: %+v", tt.set, got)
		}
		c.redisAhead(0)
	}
	passes(steady.Window + time.Hour)
	c.judge()
	if _, a := readyOf(t, cp); conditionOf(a, conditionClock).State != health.OK {
		t.Errorf("%+v", conditionOf(a, conditionClock))
	}
	for _, reason := range []string{"reason=set_ahead", "reason=set_back", "was=set_back"} {
		if n := strings.Count(log.String(), reason); n != 1 {
			t.Errorf("%d lines with %s:\n%s", n, reason, log)
		}
	}
}
