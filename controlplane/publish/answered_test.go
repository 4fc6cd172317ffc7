package publish_test

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// TestAnsweredByGateway: what a gateway has answered is remembered as long as what it was
// sent, even after it has left.
func TestAnsweredByGateway(t *testing.T) {
	const node = "cp/default/gw-1"
	r := start(t, nil)
	r.put(gateway.Services, serviceID, service(9000))
	r.put(gateway.Routes, routeID, route("/a"))
	release := r.connect(node)
	if set, answered := r.loop.Last(node); set == nil || answered != nil {
		t.Errorf("it has answered %v of %v", answered, set)
	}
	r.loop.Confirmed(node, snapshot.State{Set: r.out.set(node)})
	if set, answered := r.loop.Last(node); !set.Equal(answered) || answered == nil {
		t.Error("what it has answered is not known")
	}
	r.put(gateway.Routes, routeID, route("/b"))
	if set, answered := r.loop.Last(node); set.Equal(answered) || answered == nil {
		t.Error("it has not answered what is new")
	}
	release()
	if set, answered := r.loop.Last(node); set == nil || answered == nil {
		t.Error("nothing is known of it once it is away")
	}
	r.loop.Forget(node)
	if set, answered := r.loop.Last(node); set != nil || answered != nil {
		t.Error("it is gone for good, and still known")
	}
}
