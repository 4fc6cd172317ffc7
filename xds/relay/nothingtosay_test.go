package relay_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshgate/meshgate/xds/relay"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// everyType returns one resource of each type, and a secret. If a returning relay has all of
// them, the control plane owes it nothing, not even an empty answer.
func everyType(t *testing.T) (secret *resource.Resource, rest []*resource.Resource) {
	t.Helper()
	return identitySecret(t), []*resource.Resource{clusterA, endA, listener, routesA}
}

// TestListenerThatTheNextEnvoyRefusesThoughThereIsNothingToSay: a port was taken while an
// agent was away. The control plane has nothing new to send and still learns of the refusal.
func TestListenerThatTheNextEnvoyRefusesThoughThereIsNothingToSay(t *testing.T) {
	p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
	secret, rest := everyType(t)
	rev := p.publishWith(secret, rest...)
	_, stop := startRelay(t, dir, p.addr)
	var next atomic.Int64
	envoy := refusing(&next)
	envoy.Relay = true
	c := local(t, dir, envoy)
	if got := p.settle(t, rev); len(got.Acknowledged) != 1 {
		t.Fatalf("%+v", got)
	}
	c.Close()
	stop()

	next.Store(all)
	r, _ := startRelay(t, dir, p.addr)
	local(t, dir, envoy)
	p.until(t, rev, func(waiting int, refused []string) bool { return waiting == 0 && len(refused) == 1 })
	lacks(t, r, "in")
	if st := r.Status(); !st.Connected {
		t.Errorf("status %+v", st)
	}
}

// TestControlPlaneThatReturnsWithNothingToSay: after Report has told that the control plane is
// away, it also tells that it is back.
func TestControlPlaneThatReturnsWithNothingToSay(t *testing.T) {
	p, dir := startPlane(t, address(t)), t.TempDir()
	secret, rest := everyType(t)
	rev := p.publishWith(secret, rest...)
	reported := make(chan error, 1000)
	r, _ := startRelayWith(t, dir, p.addr, func(c *relay.Config) { c.Report = func(err error) { reported <- err } })
	local(t, dir, xdstest.Options{Relay: true})
	p.settle(t, rev)
	until := func(what string, want func(error) bool) {
		t.Helper()
		for late := time.After(patience); ; {
			select {
			case err := <-reported:
				if want(err) {
					return
				}
			case <-late:
				t.Fatalf("not told: %s", what)
			}
		}
	}
	until("it is there", func(err error) bool { return err == nil })
	p.kill()
	until("it is away", func(err error) bool { return err != nil })
	back := startPlane(t, p.addr)
	back.publishWith(secret, rest...)
	until("it is back", func(err error) bool { return err == nil })
	if st := r.Status(); !st.Connected || st.Error != "" {
		t.Errorf("status %+v", st)
	}
}
