package meshca

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// TestRotationsWithAnUnreadableMesh: the other meshes are served, and so is the unreadable
// one once it is written again.
func TestRotationsWithAnUnreadableMesh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &storetest.Unreadable{Store: memstore.New()}
		rt := newRotationTest(t, s)
		rt.stop()
		bad, good := rt.pair(), rt.pair()
		rt.builtin("bad")
		rt.builtin("good")
		for name, p := range map[string]*identity.KeyPair{"bad": bad, "good": good} {
			rt.set(mesh.Secrets, name, mesh.BuiltinCert(name, "ca"), &mesh.Secret{Data: p.Certificate})
			rt.set(mesh.Secrets, name, mesh.BuiltinKey(name, "ca"), &mesh.Secret{Data: p.Key})
		}
		s.Spoil(mesh.Meshes, "", "bad", true)
		rt.start()
		rt.expect("good", good, good)
		if tr, _ := rt.trust("bad"); tr != nil {
			t.Errorf("the unreadable mesh trusts %+v", tr)
		}
		if n := rt.log.count(); n != 1 {
			t.Errorf("%d lines in the log: %q", n, rt.log.texts)
		}
		s.Spoil(mesh.Meshes, "", "bad", false)
		rt.changed("bad")
		rt.expect("bad", bad, bad)
		rt.close()
	})
}

// TestRotationsWithAStoreThatIsAway: rotations that cannot read the store at the start try
// again.
func TestRotationsWithAStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &storetest.Unreadable{Store: memstore.New()}
		rt := newRotationTest(t, s)
		rt.stop()
		p := rt.pair()
		rt.builtin("m")
		rt.set(mesh.Secrets, "m", mesh.BuiltinCert("m", "ca"), &mesh.Secret{Data: p.Certificate})
		rt.set(mesh.Secrets, "m", mesh.BuiltinKey("m", "ca"), &mesh.Secret{Data: p.Key})
		s.Away(true)
		rt.start()
		time.Sleep(10 * time.Second)
		s.Away(false)
		time.Sleep(2 * lastRetry)
		synctest.Wait()
		rt.expect("m", p, p)
		rt.close()
	})
}
