package health

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Certificate is a certificate that a process needs.
type Certificate struct {
	// What names the certificate, and its file if it has one. Do says what to do when it
	// ends.
	What, Do            string
	NotBefore, NotAfter time.Time
}

// noticeMost bounds how long before its end a certificate is reported. Otherwise it is
// reported in the last sixth of its life. Certificates that renew themselves do so when a
// third to a fifth is left, so a sixth means that the renewal does not work.
const noticeMost = 30 * 24 * time.Hour

// notice returns when the end of a certificate is first reported.
func (c Certificate) notice() time.Time {
	return c.NotAfter.Add(-min(c.NotAfter.Sub(c.NotBefore)/6, noticeMost))
}

// Certificates judges certificates at a time, by the one that ends first. next is when to
// check again, or zero for never.
func Certificates(now time.Time, all []Certificate) (f Finding, next time.Time) {
	ending, next := endings(now, all)
	if len(ending) == 0 {
		return Finding{State: OK}, next
	}
	return Finding{Degraded, ending[0].reason(now), ending[0].text(now) + ": " + ending[0].Do}, next
}

// maxEndings bounds the certificates that a text names.
const maxEndings = 5

// EveryCertificate is [Certificates] for a set in which expired certificates may stay
// forever. Such a certificate hides no other one. The text names several, the first to end
// first, and gives the advice of the first one. The reason is "expired" only if no other
// certificate is about to end, so that the next end is logged too.
func EveryCertificate(now time.Time, all []Certificate) (f Finding, next time.Time) {
	ending, next := endings(now, all)
	if len(ending) == 0 {
		return Finding{State: OK}, next
	}
	// Certificates that can still be renewed come before expired ones.
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

// endings returns the certificates that must be reported, the first to end first. next is
// when to check again.
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

// over returns 1 for a certificate that has ended, and 0 otherwise.
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

// round formats a duration as people would say it.
func round(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
	return d.Round(time.Second).String()
}
