package chaos_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// recovery notes how long it took until all was well.
func (b *book) recovery(t *tally, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t.recovery = max(t.recovery, took)
}

// progress is the line of a fault.
func (b *book) progress(t *tally) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return t.line()
}

// report is the table of a run, as Markdown.
func (b *book) report(head string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range b.outages { // that last
		o.tally.longest = max(o.tally.longest, time.Duration(b.time()-o.since))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "# Faults against the promise of revocation\n\n%s\n\n", head)
	out.WriteString("| fault | rounds | checks | accepted | refused | undecided | good tokens: not accepted | called no good | longest refusal | recovery | revocations confirmed | unconfirmed | violations |\n")
	out.WriteString("|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, t := range b.tallies {
		fmt.Fprintf(&out, "| %s | %d | %d | %d | %d | %d | %d | %d | %s | %s | %d | %d | %d |\n", t.name, t.rounds, t.checks, t.accepted, t.refused, t.undecided,
			t.outage, t.denied, seconds(t.longest), seconds(t.recovery), t.confirmed, t.unconfirmed, t.violations)
	}
	out.WriteString("\n| way | revocations confirmed |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(b.ways)) {
		fmt.Fprintf(&out, "| %s | %d |\n", name, b.ways[name])
	}
	out.WriteString("\n| proxy | refused | accepted |\n|---|---|---|\n")
	for i, name := range proxyNames {
		fmt.Fprintf(&out, "| %s | %d | %d |\n", name, b.byProxy[0][i], b.byProxy[1][i])
	}
	fmt.Fprintf(&out, "\n%d histories judged, %d undecided, %d violations, %d other problems.\n", b.judged, b.open, b.violations.n, b.problems.n)
	return out.String()
}

// write stores the report where the environment says.
func write(report string) error {
	file := os.Getenv(reportVariable)
	if file == "" {
		return nil
	}
	return os.WriteFile(file, []byte(report), 0o600)
}
