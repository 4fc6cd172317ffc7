package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
)

// tally is what happened during one fault, or one pair of faults, and until all
// was well again.
type tally struct {
	name   string
	rounds int
	// checks of all credentials, by what came of them.
	checks, accepted, refused, undecided int
	// outage is how many checks of good tokens were not answered with 200. denied is
	// how many answers said that a credential is no good while it was.
	outage, denied int
	// longest is the longest time that one good token was not accepted by one proxy.
	longest time.Duration
	// recovery is the time from the end of the fault until every proxy accepted good
	// tokens and a revocation was confirmed.
	recovery               time.Duration
	confirmed, unconfirmed int
	violations             int
}

// quiet is the name of the time without a fault.
const quiet = "none"

// settled is how many good checks in a row make a proxy well.
const settled = 12

// book keeps all histories and figures of a run.
type book struct {
	begin time.Time

	mu      sync.Mutex
	tallies []*tally
	now     *tally
	ways    map[string]int // confirmed revocations
	byProxy [2][]int       // decided checks: refused, accepted
	// ended are the credentials whose revocation was confirmed, oldest first, and
	// other those where it was not.
	ended, other []*credential
	judged, open int
	// violations and problems hold the first texts of all there were.
	violations, problems texts
	// outages say since when a good token is not accepted, by proxy and token.
	outages map[[2]string]outage
	// well is, by proxy, how many good checks in a row were accepted since calm, and
	// when the first of them began.
	calm      int64
	well      []int
	wellSince []int64
	// honoured is when the first revocation was confirmed that began after calm.
	honoured int64
}

// texts counts what was said and keeps the beginning of it.
type texts struct {
	n     int
	first []string
}

func (t *texts) add(format string, args ...any) {
	if t.n++; len(t.first) < 20 {
		t.first = append(t.first, fmt.Sprintf(format, args...))
	}
}

type outage struct {
	since int64
	tally *tally
}

func newBook() *book {
	b := &book{
		begin: time.Now(), ways: map[string]int{}, outages: map[[2]string]outage{},
		well: make([]int, len(proxyNames)), wellSince: make([]int64, len(proxyNames)),
		byProxy: [2][]int{make([]int, len(proxyNames)), make([]int, len(proxyNames))},
	}
	b.enter(quiet)
	return b
}

// time is now, on the monotonic clock of the run.
func (b *book) time() int64 { return time.Since(b.begin).Nanoseconds() }

// enter begins a fault.
func (b *book) enter(name string) *tally {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.tallies, func(t *tally) bool { return t.name == name })
	if i < 0 {
		i = len(b.tallies)
		b.tallies = append(b.tallies, &tally{name: name})
	}
	b.now = b.tallies[i]
	b.now.rounds++
	return b.now
}

// faults is the name of what happens now.
func (b *book) faults() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now.name
}

// ask shows a credential to a proxy and notes the answer. Acceptances that look
// wrong are judged at once.
func (b *book) ask(c *credential, p *proxy) (e event) {
	if c.gatewaysOnly && p.sidecar() {
		return event{}
	}
	b.mu.Lock()
	t := b.now
	b.mu.Unlock()
	e = event{verb: check, proxy: p.index, call: b.time(), faults: t.name}
	e.status, e.accepted = c.show(p)
	e.ret = b.time()
	b.mu.Lock()
	t.checks++
	switch {
	case e.accepted:
		t.accepted++
		b.byProxy[1][p.index]++
	case decided(e.status):
		t.refused++
		b.byProxy[0][p.index]++
	default:
		t.undecided++
	}
	b.mu.Unlock()
	if c.way == goodWay {
		b.available(c, t, e)
		return e
	}
	c.note(e)
	if e.accepted && c.suspicious(e) {
		b.judge(c, t)
	}
	return e
}

// expect is ask for a credential that is good without a doubt. That a proxy cannot
// say so is an outage; that it says the opposite is wrong.
func (b *book) expect(c *credential, p *proxy) {
	e := b.ask(c, p)
	if !decided(e.status) || e.accepted {
		return
	}
	b.mu.Lock()
	b.now.denied++
	b.mu.Unlock()
	b.problem("denied while it was good: %s", c.history())
}

// available notes a check of a good token.
func (b *book) available(c *credential, t *tally, e event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := [2]string{proxyNames[e.proxy], c.name}
	out, since := b.outages[key], e.proxy
	if !e.accepted {
		t.outage++
		if e.status == http.StatusUnauthorized || e.status == http.StatusForbidden {
			t.denied++
			b.problems.add("a good token was denied: %s", e)
		}
		if out.tally == nil {
			b.outages[key] = outage{e.call, t}
		}
		b.well[since] = 0
		return
	}
	if out.tally != nil && e.call >= out.since {
		out.tally.longest = max(out.tally.longest, time.Duration(e.ret-out.since))
		delete(b.outages, key)
	}
	if e.call < b.calm {
		return
	}
	if b.well[since] == 0 {
		b.wellSince[since] = e.ret
	}
	b.well[since]++
}

// healed begins the wait for recovery.
func (b *book) healed() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calm, b.honoured = b.time(), 0
	clear(b.well)
	return b.calm
}

// recovered is how long after healed all was well, or what is not.
func (b *book) recovered() (time.Duration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	end := b.honoured
	if end == 0 {
		return 0, fmt.Errorf("no revocation is confirmed")
	}
	for i, n := range b.well {
		if n < settled {
			return 0, fmt.Errorf("%s does not accept good tokens", proxyNames[i])
		}
		end = max(end, b.wellSince[i])
	}
	return time.Duration(end - b.calm), nil
}

// revocation notes a call that revokes credentials.
func (b *book) revocation(way string, cs []*credential, e event, confirmed bool) {
	if !confirmed {
		e.ret = never
	}
	for _, c := range cs {
		c.note(e)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !confirmed {
		b.now.unconfirmed++
		return
	}
	b.now.confirmed++
	b.ways[way]++
	if e.call >= b.calm && b.honoured == 0 {
		b.honoured = e.ret
	}
}

// keep takes credentials whose life is over.
func (b *book) keep(cs []*credential, confirmed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if confirmed {
		b.ended = append(b.ended, cs...)
	} else {
		b.other = append(b.other, cs...)
	}
}

// draw is one of the credentials that must not be accepted any more, mostly a
// recent one: what a fault brings back is what it has concerned.
func (b *book) draw(rng *rand.Rand) *credential {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.ended)
	if n == 0 {
		return nil
	}
	x := rng.Float64()
	return b.ended[n-1-int(x*x*x*float64(n))]
}

// judge holds the history of a credential against the promise.
func (b *book) judge(c *credential, t *tally) {
	violated, open := c.broken()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open += len(open)
	if len(violated) == 0 || !c.condemn() {
		return
	}
	t.violations++
	names := make([]string, len(violated))
	for i, p := range violated {
		names[i] = proxyNames[p]
	}
	text := fmt.Sprintf("accepted after its end at %s, found during %q: %s", strings.Join(names, ", "), t.name, c.history())
	b.violations.add("%s", text)
	By("  " + text) // at once: a run of hours may not come to its end
}

// kept is how many ended credentials go on being checked.
const kept = 20_000

// retire judges the credentials that are checked no more: all at the end of a run,
// and before it those beyond a number, so that a long run fits into memory.
func (b *book) retire(all bool) {
	b.mu.Lock()
	gone := b.other
	b.other = nil
	if n := len(b.ended) - kept; all || n > 0 {
		if all {
			n = len(b.ended)
		}
		gone = append(gone, b.ended[:n]...)
		b.ended = slices.Clone(b.ended[n:])
	}
	now := b.now
	b.mu.Unlock()
	for _, c := range gone {
		b.judge(c, now)
	}
	b.mu.Lock()
	b.judged += len(gone)
	b.mu.Unlock()
}

// problem notes something other than a violation that fails the run.
func (b *book) problem(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems.add(format, args...)
}

// sum adds up a figure over all faults.
func (b *book) sum(of func(*tally) int) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.tallies {
		n += of(t)
	}
	return n
}
