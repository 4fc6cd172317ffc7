package server_test

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// TestWhatASearchFreesIsNoticed: a listener waits for the port of another one, which moves in a
// response that is refused because of a third. It moves in a part of that response, and then the
// first one opens.
func TestWhatASearchFreesIsNoticed(t *testing.T) {
	r := setup(t, nil)
	old, waits, bad := xdstest.Listener("a", 1000, "r"), xdstest.Listener("b", 1000, "r"), xdstest.Listener("c", 3000, "r")
	var moves, moved atomic.Bool
	c := r.dial(t, xdstest.Options{Relay: true, Reject: func(u resource.TypeURL, names []string) string {
		switch {
		case u != resource.Listener:
		case slices.Contains(names, "c"):
			return "it cannot be decoded"
		case slices.Contains(names, "b") && !moved.Load():
			return "b: the address is in use"
		case slices.Contains(names, "a"):
			moved.Store(moves.Load())
		}
		return ""
	}})
	rest := []*resource.Resource{clusterA, endA, routesA}
	publish := func(rs ...*resource.Resource) snapshot.Progress {
		r.publish(slices.Concat(rest, rs)...)
		return r.waitFor(t, func(p snapshot.Progress) bool { return p.Revision == r.rev && answered(p) })
	}
	publish(old)
	if p := publish(old, waits); len(p.Rejected) != 1 {
		t.Fatalf("progress %+v", p)
	}
	moves.Store(true)
	now := xdstest.Listener("a", 2000, "r")
	p := publish(now, waits, bad)
	if len(p.Rejected) != 1 || !slices.Equal(p.Rejected[0].Resources, []string{"c"}) {
		t.Errorf("progress %+v", p)
	}
	c.See(func(v xdstest.View) {
		if v.Version(resource.Listener, "a") != now.Version || v.Version(resource.Listener, "b") != waits.Version {
			t.Error("not all that can be opened is open")
		}
	})
}
