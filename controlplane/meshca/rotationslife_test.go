package meshca

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/mesh"
)

// TestLongerLifeIsNotedThoughThePairIsRefused: certificates of a longer life are signed
// while a mesh asks for an authority that it cannot have.
func TestLongerLifeIsNotedThoughThePairIsRefused(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		a, b := rt.pair(), rt.pair()
		rt.builtin("m", "here", "away")
		rt.ask("m", a)
		rt.confirmAll("m", "here", "away")
		rt.set(mesh.Secrets, "m", mesh.BuiltinCert("m", "ca"), &mesh.Secret{Data: b.Certificate})
		rt.life = 3 * WorkloadLife
		rt.changed("m")
		rt.life = WorkloadLife
		rt.changed("m")
		rt.ask("m", b)
		rt.confirmAll("m", "here", "away")
		rt.progress.disconnect("m", "away")
		rt.confirmAll("m", "here")
		time.Sleep(3 * WorkloadLife)
		synctest.Wait()
		rt.expect("m", b, a, b)
		time.Sleep(identity.Backdate)
		synctest.Wait()
		rt.expect("m", b, b)
	})
}

// TestLongerLifeIsSignedOnceItIsNoted: a life that is raised and lowered again before it is
// noted is never signed for.
func TestLongerLifeIsSignedOnceItIsNoted(t *testing.T) {
	wt := newWorkloadTest(t, identitytest.Memory(t))
	noted := func(life time.Duration) {
		authority := &Authority{Backend: "ca", Current: wt.root.pair(t), LeafLife: life}
		wt.place(authority)
	}
	lives := func() time.Duration {
		leaf := wt.issue()
		return leaf.NotAfter.Sub(leaf.Issued)
	}
	noted(WorkloadLife)
	wt.expiration("3d")
	if got := lives(); got != WorkloadLife {
		t.Errorf("a certificate lives for %v before that is noted", got)
	}
	noted(3 * WorkloadLife)
	if got := lives(); got != 3*WorkloadLife {
		t.Errorf("a certificate lives for %v once three days are noted", got)
	}
	wt.expiration("1h")
	if got := lives(); got != time.Hour {
		t.Errorf("a certificate lives for %v where an hour is asked for", got)
	}
}

// TestGraceBeginsAnewForAnotherRoot: a root that supersedes one which does not sign yet is
// unknown to all proxies, no matter how long the other one has waited.
func TestGraceBeginsAnewForAnotherRoot(t *testing.T) {
	rotationBubble(t, func(rt *rotationTest) {
		rt.grace = 30 * time.Second
		rt.stop()
		rt.start()
		a, b, c := rt.pair(), rt.pair(), rt.pair()
		rt.builtin("m", "here", "away")
		rt.ask("m", a)
		rt.confirmAll("m", "here")
		rt.ask("m", b)
		time.Sleep(rt.grace - time.Second)
		rt.ask("m", c)
		rt.confirmAll("m", "here")
		time.Sleep(rt.grace - time.Second)
		synctest.Wait()
		rt.expect("m", a, a, c)
		time.Sleep(time.Second)
		synctest.Wait()
		rt.expect("m", c, a, c)
	})
}

// TestLeafOfOtherSources: two dataplanes with the same names may vouch for different tag
// sets. The certificate of one is not given to the other.
func TestLeafOfOtherSources(t *testing.T) {
	wt := newWorkloadTest(t, identitytest.Memory(t))
	set := func(service, version string) mesh.Tags {
		return mesh.Tags{mesh.TagService: service, "version": version}
	}
	wt.sets("web", set("a", "1"), set("b", "2"))
	first := wt.issue()
	wt.sets("web", set("b", "2"), set("a", "1"))
	if wt.issue() != first {
		t.Error("the order of the inbounds asks for another certificate")
	}
	wt.sets("web", set("a", "2"), set("b", "1"))
	other := wt.issue()
	if other == first || other.Sources[0].String() != set("a", "2").String() {
		t.Errorf("its certificate is for %v", other.Sources)
	}
}
