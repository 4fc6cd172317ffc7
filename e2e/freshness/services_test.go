package freshness

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

// mintFor makes a token of an application of a for a service of b.
func (w *tenants) mintFor(service, value string) credential {
	w.Helper()
	w.create("a", gateway.Tokens, &gateway.Token{
		Credential: w.apps["a"], Service: service, ServicePlane: "b", AccessToken: value, TokenType: "bearer", ExpiresIn: 7200,
	})
	return credential{gateway.Tokens, value}
}

// TestTenantOfAServiceLeavesItsGroup: once that is answered no gateway of the group accepts
// tokens of others for a service of the one that has left: from memory, from Redis, in a
// look-up that was under way, or out of reach of the control plane. A gateway of the one that
// holds them never did, whatever Redis says.
func TestTenantOfAServiceLeavesItsGroup(t *testing.T) {
	w := startTenants(t)
	service := w.create("b", gateway.Services, &gateway.Service{Name: "s", Host: "upstream.test", Port: 80, Protocol: "http"})
	group, own := w.node("group"), w.node("a")
	away := &node{w: w, name: "cp/group/2", dir: filepath.Join(w.site.dir, "away")}
	w.must(os.MkdirAll(away.dir, 0o700))
	away.open()
	redistest.Until(t, "the gateway believes Redis", func() bool { s := away.cache.Stats(); return s.Leased && s.Epoch != 0 })
	free := credential{gateway.Tokens, "for-all"}
	w.mint("a", free)
	bound, raced := w.mintFor(service, "bound"), w.mintFor(service, "raced")
	group.accepts("for a member's service", bound, "user-of-a")
	for _, c := range []credential{free, bound, raced} {
		away.accepts("of a member", c, "user-of-a")
		redistest.Until(t, "Redis holds it", func() bool { return w.holds("a", c) })
	}
	own.refuses("for a service of another", bound)
	away.alone()
	away.accepts("for a member's service, without the control plane", bound, "user-of-a")
	own.alone()
	own.refuses("for a service of another, without the control plane", bound)

	h := &heldReads{met: make(chan struct{}), let: make(chan struct{})}
	group.held.Store(h)
	answer := make(chan contract.Answer, 1)
	go func() {
		a, _ := group.asks(raced)
		answer <- a
	}()
	h.meets(t, answer)
	w.must(w.members("a"))
	group.held.Store(nil)
	close(h.let)
	if a := <-answer; a == contract.Found {
		t.Error("a look-up that was under way is answered by who the members were")
	}
	for _, n := range []*node{group, away} {
		n.refuses("for a service of one that left", bound)
		n.refuses("for a service of one that left, raced", raced)
	}
	group.accepts("for all services", free, "user-of-a")
	away.comesToAccept("for all services", free, "user-of-a")
	away.refuses("for a service of one that left, once the others stand in Redis", bound)
	away.refuses("for a service of one that left, raced, once the others stand in Redis", raced)
	w.must(w.members("a", "b"))
	group.accepts("for a service of one that came back", bound, "user-of-a")
	away.comesToAccept("for a service of one that came back, without the control plane", bound, "user-of-a")
}

// holds reports whether Redis has something under a credential of a control plane.
func (w *tenants) holds(plane string, c credential) bool {
	return w.redis.CLI(w.T, "EXISTS", contract.RedisRecordKey(plane, c.hash())) == "1"
}
