package chaos_test

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/meshgate/meshgate/e2e/framework"
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
		{"proxies reach a stale copy of Redis behind a cut link", copied(func(w *world, stale *framework.Redis) func() {
			w.proxyRedis.lead(stale.Port)
			return func() { w.proxyRedis.lead(w.redis.Port) }
		})},
		{"Redis follows a stale copy behind a cut link", copied(func(w *world, stale *framework.Redis) func() {
			w.redis.Follow(stale.Port)
			return func() { w.redis.CLI("REPLICAOF", "NO", "ONE") }
		})},
	}
}

// cuts loses one of several invalidations that overlap: a reconnecting link must
// get every one that it missed.
func cuts(ctx context.Context, w *world, rng *rand.Rand) {
	p := w.victim(rng)
	for range 3 {
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
