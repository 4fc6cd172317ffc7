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

// stories are faults in an order that chance seldom finds. Each of them once let
// a revoked token pass.
func stories() []round {
	return []round{
		{"short cuts of a proxy's link", cuts},
		{"a cut while Redis holds publications up", heldUp},
		{"control plane killed between commit and publication", unpublished},
		{"Redis goes back behind a cut link", behind(func(w *world) func() {
			w.cpRedis.set(freeze)
			return func() { w.cpRedis.set(pass) }
		})},
		{"Redis goes back behind a cut link, control plane killed", behind(func(w *world) func() {
			w.cp.Kill()
			return w.cp.Launch
		})},
		{"Redis evicts behind a cut link", evicted},
	}
}

// cuts loses one of several invalidations that overlap: a reconnecting link must
// get every one that it missed.
func cuts(ctx context.Context, w *world, rng *rand.Rand) {
	p := w.victim(rng)
	for range 4 {
		p.link.set(refuse)
		pause(ctx, 400*time.Millisecond)
		p.link.set(pass)
		pause(ctx, 3200*time.Millisecond)
	}
}

// heldUp publishes several revocations at once when Redis goes on, just when a
// link is down.
func heldUp(ctx context.Context, w *world, rng *rand.Rand) {
	p := w.victim(rng)
	w.redis.Pause()
	pause(ctx, 600*time.Millisecond+time.Duration(rng.IntN(500))*time.Millisecond)
	p.link.set(refuse)
	pause(ctx, time.Duration(rng.IntN(200))*time.Millisecond)
	w.redis.Resume()
	pause(ctx, 3500*time.Millisecond)
	p.link.set(pass)
}

// unpublished leaves commits that nobody has heard of.
func unpublished(ctx context.Context, w *world, _ *rand.Rand) {
	for range 2 {
		w.redis.Pause()
		pause(ctx, 900*time.Millisecond)
		w.cp.Kill()
		w.redis.Resume()
		w.cp.Launch()
		pause(ctx, 2*time.Second)
	}
}

// behind brings an older Redis back when a proxy has nothing else to ask and the
// control plane cannot mend it.
func behind(away func(*world) func()) func(context.Context, *world, *rand.Rand) {
	return func(ctx context.Context, w *world, rng *rand.Rand) {
		p := w.victim(rng)
		snapshot := w.redis.Snapshot()
		p.link.set(refuse)
		pause(ctx, 4*time.Second)
		back := away(w)
		w.redis.Kill()
		w.redis.Restore(snapshot)
		pause(ctx, 3*time.Second)
		back()
		p.link.set(pass)
	}
}

// evicted lets Redis forget tombstones, or its clock, while a proxy has nothing
// else to ask.
func evicted(ctx context.Context, w *world, rng *rand.Rand) {
	p := w.victim(rng)
	p.link.set(refuse)
	pause(ctx, 4*time.Second)
	evict(w.redis)
	pause(ctx, 3*time.Second)
	w.redis.Command("CONFIG", "SET", "maxmemory", "0")
	p.link.set(pass)
}

// plan is the endless order of rounds of a seed: stories first and among the
// others, single faults and pairs by turns, each of them once before any comes
// again.
func plan(rng *rand.Rand, only *regexp.Regexp) func() round {
	var singles, pairs, tales []round
	all := faults()
	for i, f := range all {
		singles = append(singles, f.single())
		for _, g := range all[i+1:] {
			if f.part != g.part {
				pairs = append(pairs, both(f, g))
			}
		}
	}
	tales = stories()
	lists := [][]round{matching(tales, only), matching(singles, only), matching(pairs, only)}
	for i, list := range lists {
		if i > 0 {
			rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		}
	}
	next := make([]int, len(lists))
	turn := -1
	return func() round {
		for range lists {
			turn++
			if i := turn % len(lists); len(lists[i]) > 0 {
				next[i]++
				return lists[i][(next[i]-1)%len(lists[i])]
			}
		}
		Fail(onlyVariable + " matches no fault")
		return round{}
	}
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
