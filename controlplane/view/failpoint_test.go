package view_test

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// TestEveryStoreCallFailsOnce fails each call of the store that a view makes for a change,
// one by one. The last good state stays until the new one is complete, and no state is a
// mixture of both.
func TestEveryStoreCallFailsOnce(t *testing.T) {
	points := &storetest.Failpoints{Store: memstore.New()}
	r := open(t, points)
	r.sub.Take()
	port := 0
	// change writes without the failpoints and waits for the view.
	change := func(at int) (calls int, hit string) {
		port++
		before := r.scope.State()
		wanted := service()
		wanted.Port = port
		points.Arm(at)
		revision := update(t, points.Store, put(gateway.Services, alice, wanted))
		for r.scope.State().Revision() < revision {
			if old, ok := r.scope.State().Service(alice); port > 1 && (!ok || old.Spec.Port != port-1 && old.Spec.Port != port) {
				t.Fatalf("call %d failed, and a state with %+v is served", at, old)
			}
			select {
			case <-r.wake:
			case <-r.ctx.Done():
				t.Fatalf("call %d (%s) failed, and the view stays at %d", at, points.Hit(), before.Revision())
			}
		}
		if got, ok := r.scope.State().Service(alice); !ok || got.Spec.Port != port {
			t.Fatalf("after call %d had failed: %+v", at, got)
		}
		return points.Calls(), points.Hit()
	}
	change(0)
	calls, _ := change(0)
	if calls == 0 {
		t.Fatal("the view reads nothing")
	}
	for at := 1; at <= calls; at++ {
		if _, hit := change(at); hit == "" {
			t.Errorf("call %d did not happen", at)
		}
	}
}
