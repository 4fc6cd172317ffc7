package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"time"

	. "github.com/onsi/ginkgo/v2"
)

// round is one fault, two at once or a story, with its end.
type round struct {
	name string
	play func(ctx context.Context, w *world, rng *rand.Rand)
}

// spans are how long faults last: shorter and longer than a lease.
var spans = []time.Duration{300 * time.Millisecond, time.Second, 2 * time.Second, 3500 * time.Millisecond, 5 * time.Second}

func span(rng *rand.Rand) time.Duration { return spans[rng.IntN(len(spans))] }

// single is a fault alone.
func (f fault) single() round {
	return round{f.name, func(ctx context.Context, w *world, rng *rand.Rand) {
		begin, heal := f.make(w, rng)
		begin()
		pause(ctx, span(rng))
		heal()
	}}
}

// both is a fault that begins while another one lasts; either may end first.
func both(f, g fault) round {
	return round{f.name + " + " + g.name, func(ctx context.Context, w *world, rng *rand.Rand) {
		if rng.IntN(2) == 0 {
			f, g = g, f
		}
		begin, heal := f.make(w, rng)
		begin2, heal2 := g.make(w, rng)
		begin()
		pause(ctx, span(rng))
		begin2()
		pause(ctx, span(rng))
		if rng.IntN(2) == 0 {
			heal, heal2 = heal2, heal
		}
		heal()
		pause(ctx, spans[rng.IntN(3)])
		heal2()
	}}
}

// plan is the endless order of rounds of a seed: each story once, with another
// round after every two, and then other rounds with a story now and then. The others
// are single faults and twice as many pairs, each of them once before any comes
// again.
func plan(rng *rand.Rand, only *regexp.Regexp) func() round {
	var singles, pairs []round
	all := faults()
	for i, f := range all {
		singles = append(singles, f.single())
		for _, g := range all[i+1:] {
			if f.part != g.part {
				pairs = append(pairs, both(f, g))
			}
		}
	}
	tales := &deck{rounds: matching(stories(), only)}
	alone, twos := shuffled(rng, matching(singles, only)), shuffled(rng, matching(pairs, only))
	turn, other := -1, -1
	return func() round {
		turn++
		if n := len(tales.rounds) * 3 / 2; turn < n && turn%3 != 2 || turn >= n && turn%10 == 9 {
			if r, ok := tales.draw(); ok {
				return r
			}
		}
		other++
		decks := []*deck{twos, alone, tales}
		if other%3 == 0 {
			decks = []*deck{alone, twos, tales}
		}
		for _, d := range decks {
			if r, ok := d.draw(); ok {
				return r
			}
		}
		Fail(onlyVariable + " matches no fault")
		return round{}
	}
}

// deck deals rounds in its order, again and again.
type deck struct {
	rounds []round
	next   int
}

func shuffled(rng *rand.Rand, rounds []round) *deck {
	rng.Shuffle(len(rounds), func(i, j int) { rounds[i], rounds[j] = rounds[j], rounds[i] })
	return &deck{rounds: rounds}
}

func (d *deck) draw() (r round, ok bool) {
	if len(d.rounds) == 0 {
		return round{}, false
	}
	d.next++
	return d.rounds[(d.next-1)%len(d.rounds)], true
}

// matching leaves the rounds with a name that matches.
func matching(all []round, only *regexp.Regexp) (some []round) {
	for _, r := range all {
		if only.MatchString(r.name) {
			some = append(some, r)
		}
	}
	return some
}

// patience bounds a recovery.
const patience = 45 * time.Second

// hurt plays one round and waits until all is well again.
func (w *world) hurt(ctx context.Context, r round, rng *rand.Rand) {
	t := w.book.enter(r.name)
	r.play(ctx, w, rng)
	w.book.healed()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(patience)
	defer end.Stop()
	for {
		took, err := w.book.recovered()
		if err == nil {
			w.book.recovery(t, took)
			return
		}
		select {
		case <-tick.C:
		case <-end.C:
			w.book.problem("%s after %q: %s", err, r.name, patience)
			w.book.recovery(t, patience)
			return
		case <-ctx.Done():
			return
		}
	}
}

// line is a round's figures so far.
func (t *tally) line() string {
	return fmt.Sprintf("%s: %d checks, %d accepted, %d refused, %d undecided, longest refusal of a good token %s, recovery %s, revocations %d confirmed, %d not, violations %d",
		t.name, t.checks, t.accepted, t.refused, t.undecided, seconds(t.longest), seconds(t.recovery), t.confirmed, t.unconfirmed, t.violations)
}
