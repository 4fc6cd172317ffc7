package server_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/snapshot"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// TestWhatIsTooLargeHoldsNothingBack: a resource that no agent takes counts as refused. The proxy
// keeps what it has of it, and gets everything else, also in the state in which the resource is gone.
func TestWhatIsTooLargeHoldsNothingBack(t *testing.T) {
	told := &tally{}
	r := setup(t, func(c *server.Config) { c.Limits.ResourceBytes, c.Observer = 4<<10, told })
	c := r.dial(t, xdstest.Options{Relay: true})
	small, routes := xdstest.Listener("l", 1000, "r"), xdstest.Routes("r", "a", 200)
	r.publish(small, routes, xdstest.Listener("other", 1001, "r"))
	r.waitFor(t, func(p snapshot.Progress) bool { return p.Revision == r.rev && len(p.Acknowledged) == 1 })
	large := resource.New(resource.Listener, "l", slices.Concat(small.Body, small.Body, []byte(strings.Repeat("x", 4<<10))))
	changed := xdstest.Routes("r", "a", 503)
	r.publish(large, changed, xdstest.Listener("other", 1002, "r"))
	p := r.waitFor(t, func(p snapshot.Progress) bool { return p.Revision == r.rev && answered(p) })
	if got := refusedAlone(t, p.Rejected)["l"]; len(p.Rejected) != 1 || !strings.HasPrefix(got, "l: it was not sent, because it has ") {
		t.Errorf("refused are %+v", p.Rejected)
	}
	c.See(func(v xdstest.View) {
		if v.Version(resource.Listener, "l") != small.Version || v.Version(resource.Route, "r") != changed.Version {
			t.Error("the proxy lost a listener, or did not get its routes")
		}
	})
	if n := told.answers.Load() - told.sent.Load(); n != 1 {
		t.Errorf("observers were told of %d refusals", n)
	}
	back := xdstest.Listener("l", 1003, "r")
	r.publish(back, changed)
	r.waitFor(t, func(p snapshot.Progress) bool { return p.Revision == r.rev && len(p.Acknowledged) == 1 })
	c.See(func(v xdstest.View) {
		if v.Version(resource.Listener, "l") != back.Version {
			t.Error("the proxy does not have what is no longer too large")
		}
	})
	r.publish(large, changed)
	r.publish(changed)
	r.waitFor(t, func(p snapshot.Progress) bool { return p.Revision == r.rev && len(p.Acknowledged) == 1 })
	c.See(func(v xdstest.View) {
		if names := v.Names(resource.Listener); len(names) > 0 {
			t.Errorf("the proxy keeps %v", names)
		}
	})
}
