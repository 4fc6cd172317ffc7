package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
	ending, next := endings(now, all)
	if len(ending) == 0 {
		return Finding{State: OK}, next
	}
	return Finding{Degraded, ending[0].reason(now), ending[0].text(now) + ": " + ending[0].Do}, next
}

// maxEndings bounds the certificates that a text names.
const maxEndings = 5

// EveryCertificate is [Certificates] for those of which one that has ended may stay for
// good: it hides no other one. The text names several, the first to end first; all of
// them are told to do what the first one is. One that has ended makes the reason
// "expired" only if no other one is about to, so that the next end is logged, too.
func EveryCertificate(now time.Time, all []Certificate) (f Finding, next time.Time) {
	ending, next := endings(now, all)
	if len(ending) == 0 {
		return Finding{State: OK}, next
	}
	// What can still be helped comes before what is over.
	slices.SortStableFunc(ending, func(a, b *Certificate) int { return cmp.Compare(a.over(now), b.over(now)) })
	var texts []string
	for _, c := range ending[:min(len(ending), maxEndings)] {
		texts = append(texts, c.text(now))
	}
	text := strings.Join(texts, "; ")
	if more := len(ending) - maxEndings; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return Finding{Degraded, ending[0].reason(now), text + ": " + ending[0].Do}, next
}

// endings are the certificates of which there is notice, the first to end first.
func endings(now time.Time, all []Certificate) (out []*Certificate, next time.Time) {
	for i := range all {
		c := &all[i]
		for _, at := range []time.Time{c.notice(), c.NotAfter} {
			if at.After(now) && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		if !now.Before(c.notice()) {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b *Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
	return out, next
}

// over is 1 for a certificate that has ended, 0 for one that has not.
func (c *Certificate) over(now time.Time) int {
	if now.Before(c.NotAfter) {
		return 0
	}
	return 1
}

func (c *Certificate) reason(now time.Time) string {
	return [...]string{"ends_soon", "expired"}[c.over(now)]
}

func (c *Certificate) text(now time.Time) string {
	end := c.NotAfter.UTC().Format(time.RFC3339)
	if c.over(now) == 0 {
		return fmt.Sprintf("%s ends at %s, in %s", c.What, end, round(c.NotAfter.Sub(now)))
	}
	return fmt.Sprintf("%s expired at %s, %s ago", c.What, end, round(now.Sub(c.NotAfter)))
}

// round shows a time as people would say it.
func round(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
	return d.Round(time.Second).String()
}
