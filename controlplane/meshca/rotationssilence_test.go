package meshca

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/identity"
)

// heldUp is a rotation to next of a mesh of which the proxy a has confirmed, and b, who
// is connected, has not. The grace is over.
func heldUp(rt *rotationTest) (old, next *identity.KeyPair) {
	rt.grace, rt.silence = 30*time.Second, 5*time.Minute
	rt.stop()
	rt.start()
	old, next = rt.pair(), rt.pair()
	rt.builtin("m", "a", "b")
	rt.ask("m", old)
	rt.confirmAll("m", "a", "b")
	rt.ask("m", next)
	rt.confirmAll("m", "a")
	if rt.heldAt("m") != 0 {
		rt.t.Error("it is told of proxies that have the grace still")
	}
	time.Sleep(rt.grace)
	synctest.Wait()
	rt.expect("m", old, old, next)
	if _, revision := rt.trust("m"); rt.heldAt("m") != revision {
		rt.t.Errorf("told is revision %d, and lacking is %d", rt.heldAt("m"), revision)
	}
	return old, next
}

// TestRotationOfASilentProxy: whoever keeps a stream and answers nothing, which the token
// of one proxy is enough for, does not keep a root in force that has leaked.
func TestRotationOfASilentProxy(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		old, next := heldUp(rt)
		time.Sleep(rt.silence - time.Second)
		synctest.Wait()
		rt.expect("m", old, old, next)
		time.Sleep(time.Second)
		synctest.Wait()
		rt.expect("m", next, old, next)
		if rt.heldAt("m") != 0 {
			rt.t.Error("it is not told that nobody holds the mesh up any more")
		}
		if rt.log.count() != 1 {
			rt.t.Errorf("logged is %q", rt.log.texts)
		}
	})
}

// TestRotationOfASlowProxy: who answers late is waited for, and is named to nobody.
func TestRotationOfASlowProxy(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		_, next := heldUp(rt)
		rt.confirmAll("m", "b")
		old, _ := rt.trust("m")
		if old.Issuer != identity.Issuer(next.Certificate) || rt.heldAt("m") != 0 || rt.log.count() != 0 {
			rt.t.Errorf("%s signs, told is %d and logged %q", old.Issuer, rt.heldAt("m"), rt.log.texts)
		}
	})
}

// TestRotationOfARefusedRoot: a root that a proxy refuses, perhaps because no proxy can
// read it, signs nothing until it is refused no more, or until that proxy is away.
func TestRotationOfARefusedRoot(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		old, next := heldUp(rt)
		rt.progress.refuse("m", "b", true)
		time.Sleep(time.Hour)
		synctest.Wait()
		rt.expect("m", old, old, next)
		if rt.heldAt("m") == 0 {
			rt.t.Error("it is not told that the mesh is held up")
		}
		rt.progress.refuse("m", "b", false)
		synctest.Wait()
		rt.expect("m", next, old, next)
	})
}
