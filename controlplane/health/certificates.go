package health

import (
	"fmt"
	"time"
)

// Certificate is one that a process needs.
type Certificate struct {
	// What says which it is and in which file, if in any; Do what to do when it ends.
	What, Do            string
	NotBefore, NotAfter time.Time
}

// noticeMost is how long before the end of a certificate there is notice, at most: the
// last sixth of its life otherwise. Certificates that are renewed by themselves are when
// a third to a fifth is left, so a sixth says that the renewal does not work.
const noticeMost = 30 * 24 * time.Hour

// notice is when there is notice of the end of a certificate.
func (c Certificate) notice() time.Time {
	return c.NotAfter.Add(-min(c.NotAfter.Sub(c.NotBefore)/6, noticeMost))
}

// Certificates judges certificates at a moment, by the one that ends first, and says
// when to look again; never if that is the zero time.
func Certificates(now time.Time, all []Certificate) (f Finding, next time.Time) {
	f.State = OK
	var first *Certificate
	for i := range all {
		c := &all[i]
		for _, at := range []time.Time{c.notice(), c.NotAfter} {
			if at.After(now) && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		if !now.Before(c.notice()) && (first == nil || c.NotAfter.Before(first.NotAfter)) {
			first = c
		}
	}
	if first == nil {
		return f, next
	}
	end := first.NotAfter.UTC().Format(time.RFC3339)
	if left := first.NotAfter.Sub(now); left > 0 {
		return Finding{Degraded, "ends_soon", fmt.Sprintf("%s ends at %s, in %s: %s", first.What, end, round(left), first.Do)}, next
	}
	return Finding{Degraded, "expired", fmt.Sprintf("%s expired at %s, %s ago: %s", first.What, end, round(now.Sub(first.NotAfter)), first.Do)}, next
}

// round shows a time as people would say it.
func round(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
	return d.Round(time.Second).String()
}
