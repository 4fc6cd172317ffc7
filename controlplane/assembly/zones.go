package assembly

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/census"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/version"
	"github.com/meshgate/meshgate/xds/policy/all"
)

// zoneOnline reports whether the control plane of a zone is connected. That of the own zone is
// this process. No other control plane connects yet.
func (cp *ControlPlane) zoneOnline(name string) bool { return name == cp.cfg.Zone.Own() }

// ownZone is what is known about the zone of this process: that it runs since it was started.
func ownZone(instance string, started time.Time) *insight.ZoneInsight {
	return &insight.ZoneInsight{Subscriptions: []insight.ZoneSubscription{{
		ID: uuid.NewString(), GlobalInstanceID: instance, ZoneInstanceID: instance, ConnectTime: started,
		Version: insight.ZoneVersions{MeshCP: insight.ZoneVersion{Version: version.Program, GlobalCompatible: true}},
	}}}
}

// newCensus returns a census of everything that the mesh API shows. It asks the insights once it
// runs.
func (cp *ControlPlane) newCensus() *census.Census {
	return census.New(census.Options{
		Store: cp.store, Kinds: slices.Concat(mesh.Kinds(), all.Kinds()), Log: cp.Log,
		Insight: func(meshName, dataplane string) *insight.DataplaneInsight {
			in, _, _ := cp.mesh.insights.Read(context.Background(), meshName, dataplane) // it fails with the context only
			return in
		},
		Online: func(k *model.Kind, name string) bool { return k == mesh.Zones && cp.zoneOnline(name) },
	})
}

// runCensus counts from now on until the control plane is closed.
func (cp *ControlPlane) runCensus(ctx context.Context) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cp.mesh.census.Run(ctx) // it ends with ctx only
	}()
	cp.closers.add(func(context.Context) { stop(); <-done })
}
