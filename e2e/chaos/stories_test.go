package chaos_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// stories are faults in an order that chance seldom finds. Each of them once let
// a revoked token pass.
func stories() []round {
	return []round{
		{"short cuts of a proxy's link", cuts},
		{"a cut while Redis holds publications up", heldUp},
		{"control plane killed between commit and publication", unpublished},
		{"control plane killed again and again", flapping},
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

// flapping kills a control plane that has hardly begun.
func flapping(ctx context.Context, w *world, rng *rand.Rand) {
	for range 4 {
		w.cp.Kill()
		w.cp.Launch()
		pause(ctx, time.Duration(rng.IntN(2500))*time.Millisecond)
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

// crowd is how many clients a story has of its own, and each how many applications
// every one of them deletes.
const crowd, each = 8, 5

// doomed are credentials with the call that will end them.
type doomed struct {
	actor *actor
	cs    []*credential
	call  func() reply
}

// applications makes some with tokens that every proxy remembers.
func (w *world) applications(ctx context.Context, rng *rand.Rand) []doomed {
	first := 1000 + int(rng.Uint32()>>1)
	lives := make([]doomed, crowd*each)
	var work sync.WaitGroup
	for n := range crowd {
		work.Go(func() {
			a := newActor(w, first+n)
			for i := range each {
				cs, call := deletedApplication.prepare(ctx, a, deletedApplication)
				for _, c := range cs {
					for _, p := range w.proxies {
						w.book.expect(c, p)
					}
				}
				lives[n*each+i] = doomed{a, cs, call}
			}
		})
	}
	work.Wait()
	return lives
}

// evicted lets Redis forget tombstones, or its clock, while a proxy has nothing
// else to ask. A token's own tombstone takes the place of its record; that of an
// application stands beside it, so applications are what is deleted.
func evicted(ctx context.Context, w *world, rng *rand.Rand) {
	lives := w.applications(ctx, rng)
	p := w.victim(rng)
	p.link.set(refuse)
	pause(ctx, 3*time.Second)
	var work sync.WaitGroup
	for n := range crowd {
		work.Go(func() {
			for _, l := range lives[n*each : (n+1)*each] {
				if len(l.cs) > 0 {
					w.book.keep(l.cs, l.actor.end(ctx, deletedApplication, l.cs, l.call))
				}
			}
		})
	}
	work.Wait()
	for range 3 {
		evict(w.redis)
		for _, l := range lives {
			for _, c := range l.cs {
				w.book.ask(c, p)
			}
		}
	}
	w.redis.Command("CONFIG", "SET", "maxmemory", "0")
	w.redis.Command("CONFIG", "SET", "maxmemory-policy", "noeviction")
	p.link.set(pass)
}
