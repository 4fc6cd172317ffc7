package server

import "time"

const (
	// refusalLines is how many refusals of one stream are logged in a refusalPeriod: a
	// proxy that refuses whatever it gets must not fill the log. What stands refused is
	// told to observers all the same.
	refusalLines  = 20
	refusalPeriod = time.Minute
)

// refusalLog says which refusals of a stream are logged.
type refusalLog struct {
	since   time.Time
	lines   int
	last    string
	skipped int
}

// due reports whether a refusal is to be logged, and how many were not since the last one
// that was. The same text again is not, nor are more than there is room for, until the
// period is over.
func (l *refusalLog) due(now time.Time, text string) (skipped int, due bool) {
	if now.Sub(l.since) >= refusalPeriod || l.since.IsZero() {
		l.since, l.lines, l.last = now, 0, ""
	}
	if l.lines >= refusalLines || l.lines > 0 && text == l.last {
		l.skipped++
		return 0, false
	}
	l.lines, l.last = l.lines+1, text
	skipped, l.skipped = l.skipped, 0
	return skipped, true
}
