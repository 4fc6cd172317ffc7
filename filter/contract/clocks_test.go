package contract

import (
	"testing"
	"time"
)

// TestAhead: a slow answer does not count as a difference of clocks.
func TestAhead(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1_800_000_000, int64(s*1e9)) }
	for _, tc := range []struct {
		name                string
		said, before, after float64
		granularity, want   time.Duration
	}{
		{"the same", 0, 0, 0, 0, 0},
		{"within a slow answer", 7, 0, 10, 0, 0},
		{"ahead", 17, 0, 10, 0, 7 * time.Second},
		{"behind", -7, 0, 10, 0, -7 * time.Second},
		{"rounded down", 0, 0.9, 1.1, time.Second, 0},
		{"rounded down and behind", -7, 0.5, 1, time.Second, -6500 * time.Millisecond},
	} {
		if got := Ahead(at(tc.said), at(tc.before), at(tc.after), tc.granularity); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}
