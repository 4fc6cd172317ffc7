package meshca

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestRotationBesideAMeshThatStandsStill: a mesh that cannot be planned is waited for by the rotations of others as
// long as a proxy that is silent, and is told of. If it moves again the wait ends.
func TestRotationBesideAMeshThatStandsStill(t *testing.T) {
	for name, moves := range map[string]bool{"it stays so": false, "it moves again": true} {
		t.Run(name, func(t *testing.T) {
			rotationBubble(t, func(rt *rotationTest) {
				rt.grace, rt.silence = 30*time.Second, 5*time.Minute
				rt.stop()
				rt.start()
				old, next := rt.pair(), rt.pair()
				rt.builtin("m", "a")
				rt.ask("m", old)
				rt.confirmAll("m", "a")
				rt.progress.change(func() { rt.progress.still = true })
				rt.ask("m", next)
				rt.confirmAll("m", "a")
				time.Sleep(rt.grace - time.Second)
				synctest.Wait()
				if rt.heldAt("m") != 0 {
					t.Error("it is told of a mesh that has the grace still")
				}
				time.Sleep(time.Second)
				synctest.Wait()
				rt.expect("m", old, old, next)
				if _, revision := rt.trust("m"); rt.heldAt("m") != revision {
					t.Errorf("told is revision %d, and lacking is %d", rt.heldAt("m"), revision)
				}
				want := 0
				if moves {
					rt.progress.change(func() { rt.progress.still = false })
				} else {
					time.Sleep(rt.silence)
					want = 1
				}
				synctest.Wait()
				rt.expect("m", next, old, next)
				if rt.heldAt("m") != 0 || rt.log.count() != want {
					t.Errorf("told is %d, logged is %q", rt.heldAt("m"), rt.log.texts)
				}
			})
		})
	}
}

// TestRotationOfAMeshThatStandsStill: nobody signs with a root that the proxies of the mesh were not offered, but
// that is told as soon as they could have had it for the grace.
func TestRotationOfAMeshThatStandsStill(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		rt.grace, rt.silence = 30*time.Second, 5*time.Minute
		rt.stop()
		rt.start()
		old, next := rt.pair(), rt.pair()
		rt.builtin("m", "a")
		rt.ask("m", old)
		rt.confirmAll("m", "a")
		rt.progress.change(func() { rt.progress.hidden = map[string]bool{"m": true} })
		rt.ask("m", next)
		time.Sleep(rt.grace)
		synctest.Wait()
		_, revision := rt.trust("m")
		if rt.heldAt("m") != revision {
			t.Errorf("told is revision %d, and lacking is %d", rt.heldAt("m"), revision)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		rt.expect("m", old, old, next)
		rt.progress.change(func() { rt.progress.hidden = nil })
		synctest.Wait()
		if rt.heldAt("m") != 0 {
			t.Error("it is told of proxies that have the grace still")
		}
		rt.confirmAll("m", "a")
		rt.expect("m", next, old, next)
	})
}
