package contract

import "time"

// ClocksApart is how far the clocks of two machines may be apart until somebody is
// told. Machines that follow a time server differ by milliseconds, so 5 s says that one
// of them does not. It is far below what does harm at once: leases are measured with
// monotonic clocks, and certificates are dated back by 5 minutes. Tokens end too early
// or too late by the difference.
const ClocksApart = 5 * time.Second

// Ahead returns by how much a clock is ahead of this machine's, at least, if it said a
// time between two moments of this machine; negative if it is behind. granularity is
// how far what it said is rounded down. The result is 0 where the two may agree.
func Ahead(said, before, after time.Time, granularity time.Duration) time.Duration {
	// Wall clocks are compared: monotonic ones are of this machine alone.
	said, before, after = said.Round(0), before.Round(0), after.Round(0)
	if d := said.Sub(after); d > 0 {
		return d
	}
	if d := said.Add(granularity).Sub(before); d < 0 {
		return d
	}
	return 0
}
