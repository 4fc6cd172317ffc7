package server_test

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// A new listener takes the address of a removed one. It comes in the response that removes the
// old one: in an earlier response, it would find the address in use.
func TestListenerTakesTheAddressOfOneThatGoes(t *testing.T) {
	for name, relay := range map[string]bool{"an Envoy": false, "an agent": true} {
		t.Run(name, func(t *testing.T) {
			r := setup(t, nil)
			r.publish(world()...)
			c := r.dial(t, xdstest.Options{Relay: relay})
			c.Request(resource.Route).Equals(t, routesA)
			r.settle(t, r.rev)
			n := len(c.Messages())
			renamed := xdstest.Listener("in2", 1000, "r")
			r.settle(t, r.publish(clusterA, endA, renamed, routesA))
			c.Request(resource.Listener).Equals(t, renamed)
			// The first answer about secrets, of which there are none, may come at any time.
			got := slices.DeleteFunc(slices.Clone(sent(c, n)), func(m xdstest.Message) bool { return len(m.Names)+len(m.Removed) == 0 })
			want(t, got, xdstest.Message{Type: resource.Listener, Names: []string{"in2"}, Removed: []string{"in"}})
		})
	}
}

// A listener was refused because its address was in use. When another listener is removed or
// changed, the refused one is sent once more, although its own bytes are the same, and then
// not again. Before that, the revision is not reported as accepted.
func TestRefusedListenerIsTriedAgainWhenAnotherGivesWay(t *testing.T) {
	second, moved := xdstest.Listener("zz", 1000, "r"), xdstest.Listener("in", 1001, "r")
	for name, giveWay := range map[string][]*resource.Resource{
		"it goes": {clusterA, endA, second, routesA}, "it moves": {clusterA, endA, moved, second, routesA},
	} {
		for _, stays := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				r := setup(t, nil)
				r.publish(world()...)
				var free atomic.Bool
				c := r.dial(t, xdstest.Options{Refuse: func(u resource.TypeURL, name string) string {
					if u == resource.Listener && name == "zz" && !free.Load() {
						return "zz: address in use"
					}
					return ""
				}})
				c.Request(resource.Route).Equals(t, routesA)
				if p := r.settle(t, r.publish(append(world(), second)...)); len(p.Rejected) != 1 {
					t.Fatalf("progress %+v", p)
				}
				free.Store(!stays)
				n := len(c.Messages())
				p := r.settle(t, r.publish(giveWay...))
				if stays != (len(p.Rejected) == 1) || stays == (len(p.Acknowledged) == 1) {
					t.Errorf("progress %+v", p)
				}
				tries := 0
				for _, m := range sent(c, n) {
					if slices.Contains(m.Names, "zz") {
						tries++
					}
				}
				if tries != 1 {
					t.Errorf("it was sent %d times: %+v", tries, sent(c, n))
				}
			})
		}
	}
}

// Of two listeners in one response, one is refused because the other frees its address only
// afterwards.
func TestRefusedListenerIsTriedAgainAfterTheOthersOfItsResponse(t *testing.T) {
	r := setup(t, nil)
	r.publish(world()...)
	var times atomic.Int32
	c := r.dial(t, xdstest.Options{Refuse: func(u resource.TypeURL, name string) string {
		if u == resource.Listener && name == "a" && times.Add(1) == 1 {
			return "a: address in use"
		}
		return ""
	}})
	c.Request(resource.Route).Equals(t, routesA)
	first, moved := xdstest.Listener("a", 1000, "r"), xdstest.Listener("in", 1001, "r")
	if p := r.settle(t, r.publish(clusterA, endA, first, moved, routesA)); len(p.Rejected) != 0 || len(p.Acknowledged) != 1 {
		t.Fatalf("progress %+v", p)
	}
	c.Request(resource.Listener).Equals(t, first, moved)
}

// A response that cannot be decoded is not applied at all. Its removals are still carried out
// later. A proxy that refuses everything is not sent the same for ever.
func TestRemovalDoesNotDependOnWhatComesAlong(t *testing.T) {
	r := setup(t, nil)
	r.publish(world()...)
	var all atomic.Bool
	c := r.dial(t, xdstest.Options{Reject: func(u resource.TypeURL, names []string) string {
		if u == resource.Listener && (slices.Contains(names, "bad") || all.Load()) {
			return "cannot be decoded"
		}
		return ""
	}})
	c.Request(resource.Route).Equals(t, routesA)
	r.settle(t, r.publish(clusterA, endA, xdstest.Listener("bad", 1000, "r"), routesA))
	c.Request(resource.Listener).Equals(t)
	r.settle(t, r.publish(world()...))
	c.Request(resource.Listener).Equals(t, listener)
	all.Store(true)
	n := len(c.Messages())
	r.settle(t, r.publish(clusterA, endA, xdstest.Listener("bad", 1000, "r"), routesA))
	if got := sent(c, n); len(got) > 4 {
		t.Errorf("%d responses: %+v", len(got), got)
	}
}
