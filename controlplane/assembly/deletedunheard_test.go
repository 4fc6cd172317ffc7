package assembly

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
	xds "github.com/meshgate/meshgate/xds/server"
)

// TestDeletionOfAControlPlaneIsMissed: a control plane whose deletion is among more events than the store
// remembers is not followed any more. Otherwise its view would stay in memory until a restart.
func TestDeletionOfAControlPlaneIsMissed(t *testing.T) {
	const gone, stays = "10000000-0000-4000-8000-000000000000", "20000000-0000-4000-8000-000000000000"
	r := startRunning(t, func(*running, *xds.Config) {})
	write := func(fn func(store.Tx) error) {
		t.Helper()
		if _, err := r.gate.As(model.System("test")).Write(t.Context(), model.Config, fn); err != nil {
			t.Fatal(err)
		}
	}
	for _, plane := range []string{gone, stays} {
		write(func(tx store.Tx) error {
			_, err := tx.Create(&model.Resource{Kind: cloud.ControlPlanes, Name: plane, Spec: &cloud.ControlPlane{Name: "team-" + plane[:1], ClusterType: cloud.TypeHybrid, AuthType: "pinned_client_certs"}})
			if err == nil {
				_, err = tx.Create(&model.Resource{Kind: gateway.Instances, Scope: plane, Name: "gw", Spec: &gateway.Instance{Listen: "127.0.0.1", HTTPPort: 8000, HTTPSPort: 8443, ControlPlane: "127.0.0.1:5678"}})
			}
			return err
		})
		if err := r.loop.Follow(t.Context(), identity.GatewayNode(plane, "gw")); err != nil {
			t.Fatal(err)
		}
	}
	// The loop begins to follow the default one by itself. It is there before the other one goes.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.loop.UpToDate(ctx, publish.ControlPlaneScope(model.DefaultControlPlane)); err != nil {
		t.Fatal(err)
	}
	write(func(tx store.Tx) error { return tx.Delete(cloud.ControlPlanes, "", gone, 0) })
	if err := r.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	followed := r.loop.ControlPlanes()
	if slices.Contains(followed, gone) {
		t.Error("the deleted one is followed")
	}
	if !slices.Contains(followed, stays) || !slices.Contains(followed, model.DefaultControlPlane) {
		t.Errorf("followed are %v", followed)
	}
}
