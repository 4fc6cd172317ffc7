package server_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// large returns 100 clusters with assignments, a listener and routes. marked changes one
// cluster.
func large(marked bool) (out []*resource.Resource) {
	for i := range 100 {
		name := fmt.Sprintf("c%02d", i)
		cluster := xdstest.Cluster(name, s)
		if marked && i == 42 {
			cluster = xdstest.Cluster(name, 7*s)
		}
		out = append(out, cluster, xdstest.Endpoints(name, 2000+i))
	}
	return append(out, listener, xdstest.Routes("r", "c01", 0))
}

// holdsAll reports whether a client holds every resource byte for byte. It skips the cluster
// that the client refuses, and its assignment, which the client does not request.
func holdsAll(v xdstest.View, rs []*resource.Resource, but string) bool {
	for _, r := range rs {
		if r.Name == but && (r.Type == resource.Cluster || r.Type == resource.Endpoint) {
			continue
		}
		if v.Version(r.Type, r.Name) != r.Version || !bytes.Equal(v.Body(r.Type, r.Name), r.Body) {
			return false
		}
	}
	return true
}

// If one resource of a hundred is bad, the others are applied. Every other type arrives byte
// for byte, then and later. One refusal is shown, and the refused bytes are not sent again
// before they change.
func TestOneBadResourceOfAHundred(t *testing.T) {
	for name, relay := range map[string]bool{"an Envoy": false, "an agent": true} {
		t.Run(name, func(t *testing.T) {
			r := setup(t, nil)
			c := r.dial(t, xdstest.Options{Relay: relay, Refuse: func(u resource.TypeURL, name string) string {
				if u == resource.Cluster && name == "c42" {
					return "c42: bad"
				}
				return ""
			}})
			world := large(true)
			r.settle(t, r.publish(world...))
			c.WaitFor(t, "everything else", func(v xdstest.View) bool { return holdsAll(v, world, "c42") })
			if p := r.settle(t, r.rev); len(p.Rejected) != 1 || p.Rejected[0].Error != "c42: bad" {
				t.Fatalf("progress %+v", p)
			}
			n := len(c.Messages())
			// Everything else changes, several times.
			for i := range 5 {
				world = large(true)
				world[2] = xdstest.Cluster("c01", s*2+1)
				world[3] = xdstest.Endpoints("c01", 3000+i)
				world[len(world)-2] = xdstest.Listener("in", 1100+i, "r")
				world[len(world)-1] = xdstest.Routes("r", fmt.Sprintf("c%02d", i), 0)
				r.settle(t, r.publish(world...))
				c.WaitFor(t, "the change", func(v xdstest.View) bool { return holdsAll(v, world, "c42") })
			}
			repeats := 0
			for _, m := range sent(c, n) {
				for _, x := range m.Names {
					if m.Type == resource.Cluster && x == "c42" {
						repeats++
					}
				}
			}
			// The refused response is sent again as a whole once, because c01, which was in
			// the same response, has changed.
			if repeats > 1 {
				t.Errorf("the refused bytes were sent %d times more", repeats)
			}
			if p := r.settle(t, r.rev); len(p.Rejected) != 1 {
				t.Errorf("progress %+v", p)
			}
		})
	}
}

// A response that was refused as a whole, with a name, is sent again as a whole once one of its
// resources has changed, because none of the others may have been applied.
func TestRefusedResponseIsSentAgainAsAWhole(t *testing.T) {
	r := setup(t, nil)
	bad := xdstest.Cluster("bad", s)
	c := r.dial(t, xdstest.Options{Relay: true, Reject: func(u resource.TypeURL, _ []string) string {
		if u != resource.Cluster {
			return ""
		}
		if set := r.snaps.Get(nodeID); set.Get(resource.Cluster, "bad") == bad {
			return "bad: cannot be decoded"
		}
		return ""
	}})
	r.publish(clusterA, clusterB, bad, endA, endB)
	c.Request(resource.Endpoint).Equals(t, endA, endB)
	r.waitFor(t, func(p snapshot.Progress) bool { return len(p.Rejected) == 1 })
	c.Request(resource.Cluster).Equals(t)
	mended := xdstest.Cluster("bad", 2*s)
	r.settle(t, r.publish(clusterA, clusterB, mended, endA, endB))
	c.Request(resource.Cluster).Equals(t, clusterA, clusterB, mended)
	if p := r.settle(t, r.rev); len(p.Rejected) != 0 || len(p.Acknowledged) != 1 {
		t.Fatalf("progress %+v", p)
	}
}
