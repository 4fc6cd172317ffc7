package relay_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshgate/meshgate/xds/relay"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
)

var listenerB = xdstest.Listener("in", 1001, "r")

// all is more than any test needs.
const all = 1 << 30

// refusing returns an Envoy that refuses as many responses with listeners as the counter says.
func refusing(next *atomic.Int64) xdstest.Options {
	return xdstest.Options{Reject: func(u resource.TypeURL, names []string) string {
		if u == resource.Listener && len(names) > 0 && next.Add(-1) >= 0 {
			return "in: cannot bind: Address already in use"
		}
		return ""
	}}
}

// lacks waits until the relay reports exactly these listeners as missing.
func lacks(t *testing.T, r *relay.Relay, want ...string) {
	t.Helper()
	tick, late := time.NewTicker(time.Millisecond), time.After(patience)
	defer tick.Stop()
	for !slices.Equal(slices.Sorted(maps.Keys(r.Refused())), want) {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("it lacks %v, not %q", r.Refused(), want)
		}
	}
}

// TestRefusedListener: an Envoy that lacks a listener is whole again once it has accepted
// another version, or once the listener is removed.
func TestRefusedListener(t *testing.T) {
	p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
	rev := p.publish(clusterA, endA, listener, routesA)
	r, _ := startRelay(t, dir, p.addr)
	var next atomic.Int64
	next.Store(all)
	local(t, dir, refusing(&next))
	if got := p.settle(t, rev); len(got.Rejected) != 1 {
		t.Fatalf("%+v", got)
	}
	lacks(t, r, "in")
	if text := r.Refused()["in"]; !strings.Contains(text, "already in use") {
		t.Errorf("because of %q", text)
	}
	if err := r.Lacks("in"); err == nil || !strings.Contains(err.Error(), "already in use") {
		t.Errorf("because of %v", err)
	}
	told, whole := make(chan map[string]string, 1), make(chan error, 1)
	go func() { whole <- r.Whole(t.Context(), func(refused map[string]string) { told <- refused }) }()
	if refused := <-told; refused["in"] == "" {
		t.Errorf("told of %v", refused)
	}
	next.Store(0)
	p.settle(t, p.publish(clusterA, endA, listenerB, routesA))
	if err := <-whole; err != nil {
		t.Error(err)
	}
	lacks(t, r)
	if err := r.Lacks("in"); err != nil {
		t.Error(err)
	}
}

// TestListenerWithoutAnswer: until Envoy has answered nobody knows whether it has a listener. One that
// was never sent is lacking.
func TestListenerWithoutAnswer(t *testing.T) {
	p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
	rev := p.publish(clusterA, endA, listener, routesA)
	r, _ := startRelay(t, dir, p.addr)
	<-r.Ready() // for an Envoy
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !errors.Is(r.Lacks("in"), relay.ErrUnanswered) {
		<-tick.C // it is on the way
	}
	local(t, dir, xdstest.Options{})
	p.settle(t, rev)
	if err := r.Lacks("in"); err != nil {
		t.Error(err)
	}
	if err := r.Lacks("out"); err == nil || errors.Is(err, relay.ErrUnanswered) {
		t.Error(err)
	}
}

// TestRefusedListenerIsWantedNoMore: a removed listener is not missing.
func TestRefusedListenerIsWantedNoMore(t *testing.T) {
	p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
	rev := p.publish(clusterA, endA, listener, routesA)
	r, _ := startRelay(t, dir, p.addr)
	var next atomic.Int64
	next.Store(all)
	local(t, dir, refusing(&next))
	p.settle(t, rev)
	lacks(t, r, "in")
	p.settle(t, p.publish(clusterA, endA, routesA))
	lacks(t, r)
}

// TestRefusedListenerThatIsRemovedWhileTheLinkIsDown: a new control plane sends no removal of
// a listener that the relay did not name to it.
func TestRefusedListenerThatIsRemovedWhileTheLinkIsDown(t *testing.T) {
	p, dir := startPlane(t, address(t)), t.TempDir()
	rev := p.publish(clusterA, endA, listener, routesA)
	r, _ := startRelay(t, dir, p.addr)
	var next atomic.Int64
	next.Store(all)
	local(t, dir, refusing(&next))
	p.settle(t, rev)
	lacks(t, r, "in")
	p.kill()
	back := startPlane(t, p.addr)
	back.settle(t, back.publish(clusterA, endA, routesA))
	lacks(t, r)
}

// TestListenerThatTheNextEnvoyRefuses: a port was taken while a proxy was away. The control
// plane believes that the listener is confirmed, and learns that it is missing.
func TestListenerThatTheNextEnvoyRefuses(t *testing.T) {
	p, dir := startPlane(t, address(t)), t.TempDir()
	rev := p.publish(clusterA, endA, listener, routesA)
	_, stop := startRelay(t, dir, p.addr)
	var next atomic.Int64
	c := local(t, dir, refusing(&next))
	p.settle(t, rev)
	p.kill()
	c.Close()
	stop()

	next.Store(all)
	r, _ := startRelay(t, dir, p.addr) // no control plane
	local(t, dir, refusing(&next))
	lacks(t, r, "in")

	back := startPlane(t, p.addr)
	rev = back.publish(clusterA, endA, listener, routesA)
	back.until(t, rev, func(waiting int, refused []string) bool { return waiting == 0 && len(refused) == 1 })
	lacks(t, r, "in")
	next.Store(0)
	back.settle(t, back.publish(clusterA, endA, listenerB, routesA))
	lacks(t, r)
}
