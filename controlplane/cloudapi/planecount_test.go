package cloudapi

import (
	"context"
	"testing"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// watchedFleet notes whether it is listed while a transaction runs.
type watchedFleet struct {
	Fleet
	inside *bool
	within int
}

// Gateways implements Fleet.
func (f *watchedFleet) Gateways(scopes ...string) []nodes.Node {
	if *f.inside {
		f.within++
	}
	return f.Fleet.Gateways(scopes...)
}

// LeftOut implements Fleet.
func (f *watchedFleet) LeftOut(scope string) ([]scopes.Clash, uint64, bool) {
	return f.Fleet.LeftOut(scope)
}

// insideStore notes whether a transaction runs.
type insideStore struct {
	store.Store
	inside *bool
}

// Update implements store.Store.
func (s insideStore) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	return s.Store.Update(ctx, class, func(tx store.Tx) error {
		*s.inside = true
		defer func() { *s.inside = false }()
		return fn(tx)
	})
}

// TestDeletionCountsGatewaysBefore: the gateways of a control plane are looked at ahead of the transaction that
// deletes it, which keeps all others from writing.
func TestDeletionCountsGatewaysBefore(t *testing.T) {
	inside := false
	f := setupPlanesIn(t, insideStore{memstore.Open(memstore.Options{}), &inside})
	watched := &watchedFleet{Fleet: f.api.Planes.Fleet, inside: &inside}
	f.api.Planes.Fleet = watched
	a := f.plane("aa", cloud.TypeHybrid)
	f.expects(204, "DELETE", controlPlanes+"/"+a, "")
	if watched.within != 0 {
		t.Errorf("the fleet is listed %d times in transactions", watched.within)
	}
}

// TestDeletionCountsGatewaysAnew: a gateway that comes while the first transaction of a deletion finds out that
// it has too much to do keeps its control plane: the one that marks it counts again.
func TestDeletionCountsGatewaysAnew(t *testing.T) {
	few(t)
	db := &busy{Store: memstore.Open(memstore.Options{})}
	f := setupPlanesIn(t, db)
	a := f.plane("aa", cloud.TypeHybrid)
	if _, err := f.gate.As(model.System("test")).Write(t.Context(), model.Config, func(tx store.Tx) error { return fill(tx, a) }); err != nil {
		t.Fatal(err)
	}
	db.before = func(store.Store) { f.fleet.connects(a) }
	f.expects(409, "DELETE", controlPlanes+"/"+a, "")
	f.expects(200, "GET", controlPlanes+"/"+a, "")
	f.fleet.gateways = map[string][]nodes.Node{}
	f.expects(204, "DELETE", controlPlanes+"/"+a, "")
}
