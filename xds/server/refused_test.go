package server_test

import (
	"testing"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// Several revisions often share one response. A refusal of that response also counts for the
// oldest of these revisions, because the proxy never accepted that one either.
func TestRefusalCountsForEachRevisionOfItsResponse(t *testing.T) {
	for name, relay := range map[string]bool{"an Envoy": false, "an agent": true} {
		t.Run(name, func(t *testing.T) {
			r := setup(t, nil)
			first := r.publish(clusterA, endA, listener, routesA)
			r.dial(t, xdstest.Options{Relay: relay, Refuse: refuseB})
			acknowledged(t, r)
			bad := r.rev + 1
			r.rev++ // this revision is published together with the next one
			r.settle(t, r.publish(clusterA, clusterB, endA, endB, listener, routesA))
			if p := r.settle(t, bad); len(p.Rejected) != 1 || len(p.Acknowledged) != 0 {
				t.Errorf("the refused revision: %+v", p)
			}
			if p := r.settle(t, first); len(p.Rejected) != 0 || len(p.Acknowledged) != 1 {
				t.Errorf("the revision before: %+v", p)
			}
		})
	}
}

// Content may be sent again because something beside it has changed. If the proxy refuses it
// again, it counts as refused since the first time.
func TestRefusedAgainIsRefusedSinceTheFirstTime(t *testing.T) {
	r := setup(t, nil)
	r.publish(clusterA, endA, listener, routesA)
	r.dial(t, xdstest.Options{Relay: true, Refuse: refuseB})
	acknowledged(t, r)
	bad := r.publish(xdstest.Cluster("a", 3*s), clusterB, endA, endB, listener, routesA)
	r.settle(t, bad)
	r.settle(t, r.publish(xdstest.Cluster("a", 4*s), clusterB, endA, endB, listener, routesA))
	if p := r.settle(t, bad); len(p.Rejected) != 1 || len(p.Acknowledged) != 0 {
		t.Errorf("progress %+v", p)
	}
}

// A refusal stands until its correction is answered, not only until it is sent. Otherwise a
// rotation that waits for the proxy would go on while the proxy still has the old secret.
func TestRefusalStandsUntilItsCorrectionIsAnswered(t *testing.T) {
	r := setup(t, nil)
	r.publish(clusterA, endA, listener, routesA)
	mended := xdstest.Cluster("b", 9*s)
	seen := make(chan []snapshot.Rejection, 1)
	r.dial(t, xdstest.Options{Relay: true, Refuse: func(u resource.TypeURL, name string) string {
		if r.snaps.Get(nodeID).Get(resource.Cluster, "b") != mended {
			return refuseB(u, name)
		}
		if u == resource.Cluster && name == "b" {
			select {
			case seen <- r.snaps.Rejections(nodeID):
			default:
			}
		}
		return ""
	}})
	acknowledged(t, r)
	r.settle(t, r.publish(clusterA, clusterB, endA, endB, listener, routesA))
	r.settle(t, r.publish(clusterA, mended, endA, endB, listener, routesA))
	if got := <-seen; len(got) != 1 {
		t.Errorf("before the answer: %+v", got)
	}
	if got := r.snaps.Rejections(nodeID); len(got) != 0 {
		t.Errorf("after the answer: %+v", got)
	}
}

func refuseB(u resource.TypeURL, name string) string {
	if u == resource.Cluster && name == "b" {
		return "b: bad"
	}
	return ""
}

// acknowledged waits until the proxy is connected and has accepted everything.
func acknowledged(t *testing.T, r *rig) {
	t.Helper()
	r.waitFor(t, func(p snapshot.Progress) bool { return len(p.Acknowledged) == 1 && len(p.Rejected) == 0 })
}

// A refusal ends when what was refused leaves the set, although the proxy never had it.
func TestRefusalEndsWithWhatWasRefused(t *testing.T) {
	for name, relay := range map[string]bool{"an Envoy": false, "an agent": true} {
		t.Run(name, func(t *testing.T) {
			r := setup(t, nil)
			r.publish(clusterA, endA, listener, routesA)
			r.dial(t, xdstest.Options{Relay: relay, Refuse: refuseB})
			acknowledged(t, r)
			r.settle(t, r.publish(clusterA, clusterB, endA, endB, listener, routesA))
			r.settle(t, r.publish(clusterA, endA, listener, routesA))
			if got := r.snaps.Rejections(nodeID); len(got) != 0 {
				t.Errorf("still refused: %+v", got)
			}
		})
	}
}
