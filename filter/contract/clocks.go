package contract

import "time"

// ClocksApart is the difference between the clocks of two machines beyond which a warning is
// given. Machines that follow a time server differ by milliseconds, so a difference of 5 s
// means that one of them does not. It is far below a difference that does immediate harm:
// leases are measured with monotonic clocks, and certificates are dated back by 5 minutes.
// Tokens end too early or too late by the difference.
const ClocksApart = 5 * time.Second

// Ahead returns the least amount by which a clock is ahead of this machine's, or a negative
// amount if it is behind. said is what the clock said between two moments of this machine,
// rounded down by less than granularity. The result is 0 if the two clocks may agree.
func Ahead(said, before, after time.Time, granularity time.Duration) time.Duration {
	// Wall clocks are compared, because monotonic clocks have no meaning on other machines.
	said, before, after = said.Round(0), before.Round(0), after.Round(0)
	if d := said.Sub(after); d > 0 {
		return d
	}
	if d := said.Add(granularity).Sub(before); d < 0 {
		return d
	}
	return 0
}
