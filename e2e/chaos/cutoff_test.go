package chaos_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/meshgate/meshgate/e2e/framework"
)

// A proxy whose link is cut has nothing but Redis to ask. These stories give it a
// Redis that does not know what was revoked since.

// crowd is how many clients such a story has of its own.
const crowd = 40

// doomed are credentials with the call that will end them.
type doomed struct {
	actor *actor
	cs    []*credential
	call  func() reply
}

// crowded lets every client of a story do its share, for a time at most.
func crowded(ctx context.Context, d time.Duration, share func(ctx context.Context, n int)) {
	limited, done := context.WithTimeout(ctx, d)
	defer done()
	var work sync.WaitGroup
	for n := range crowd {
		work.Go(func() { share(limited, n) })
	}
	work.Wait()
}

// cutOff makes credentials that every proxy has seen, cuts a proxy's link, ends
// them, and shows them to that proxy while turn lasts and shortly after. mark is called right after
// the cut: what the proxy knows is not newer than what Redis holds then.
func cutOff(ctx context.Context, w *world, rng *rand.Rand, by *way, mark func(), turn func() (back func())) {
	first := 1000 + int(rng.Uint32()>>1)
	lives := make([]doomed, crowd)
	crowded(ctx, 10*time.Second, func(ctx context.Context, n int) {
		a := newActor(w, first+n)
		cs, call := by.prepare(ctx, a, by)
		for _, c := range cs {
			for _, p := range w.proxies {
				w.book.expect(c, p)
			}
		}
		lives[n] = doomed{a, cs, call}
	})
	p := w.victim(rng)
	p.link.set(refuse)
	mark()
	crowded(ctx, 5*time.Second, func(ctx context.Context, n int) {
		if l := lives[n]; len(l.cs) > 0 {
			w.book.keep(l.cs, l.actor.end(ctx, by, l.cs, l.call))
		}
	})
	show := func(ctx context.Context, n int) {
		for pause(ctx, 50*time.Millisecond) {
			for _, c := range lives[n].cs {
				w.book.ask(c, p)
			}
		}
	}
	back := turn()
	crowded(ctx, 3*time.Second, show)
	back()
	crowded(ctx, time.Second, show)
	p.link.set(pass)
}

// behind brings an older Redis back while the control plane cannot mend it.
func behind(away func(*world) (back func())) func(context.Context, *world, *rand.Rand) {
	return func(ctx context.Context, w *world, rng *rand.Rand) {
		var snapshot []byte
		cutOff(ctx, w, rng, deletedToken, func() { snapshot = w.redis.Save() }, func() func() {
			back := away(w)
			w.redis.Kill()
			w.redis.RestartFrom(snapshot)
			return back
		})
	}
}

// copied gives proxies the contents of a server that stood still for a while, as a
// fail-over can.
func copied(turn func(w *world, stale *framework.Redis) (back func())) func(context.Context, *world, *rand.Rand) {
	return func(ctx context.Context, w *world, rng *rand.Rand) {
		stale := framework.StartRedis("--repl-diskless-sync-delay", "0")
		stale.Kill()
		cutOff(ctx, w, rng, deletedToken, func() { stale.RestartFrom(w.redis.Save()) }, func() func() { return turn(w, stale) })
		stale.Kill()
	}
}

// evicted lets Redis forget tombstones, or its clock. A token's own tombstone takes
// the place of its record; that of an application stands beside it, so applications
// are what is deleted.
func evicted(ctx context.Context, w *world, rng *rand.Rand) {
	cutOff(ctx, w, rng, deletedApplication, func() {}, func() func() {
		evict(w.redis)
		return func() {
			w.redis.CLI("CONFIG", "SET", "maxmemory", "0")
			w.redis.CLI("CONFIG", "SET", "maxmemory-policy", "noeviction")
		}
	})
}
