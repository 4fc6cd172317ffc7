package server

import "time"

const (
	// refusalLines is the number of refusals of one stream that are logged per refusalPeriod.
	// A proxy that refuses everything must not fill the log. Observers are told of every
	// refusal, also of those whose response is then sent in parts, which are not logged.
	refusalLines  = 20
	refusalPeriod = time.Minute
)

// refusalLog decides which refusals of a stream are logged.
type refusalLog struct {
	since   time.Time
	lines   int
	last    string
	skipped int
}

// due reports whether to log a refusal, and how many refusals were skipped since the last
// logged one. A refusal is skipped, until the period ends, if its text repeats the last logged
// one or if the limit is reached.
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
