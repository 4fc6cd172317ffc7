package assembly

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/census"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/version"
	"github.com/meshgate/meshgate/xds/policy/all"
)

// zoneOnline reports whether the control plane of a zone is connected. That of the own zone is
// this process, unless it is the one above several zones, which is in none. No other control plane
// connects yet.
func (cp *ControlPlane) zoneOnline(name string) bool {
	return cp.cfg.Mode != config.ModeGlobal && name == cp.cfg.Zone.Own()
}

// ownZone is what is known about the zone of this process: that it runs since it was started.
func ownZone(instance string, started time.Time) *insight.ZoneInsight {
	return &insight.ZoneInsight{Subscriptions: []insight.ZoneSubscription{{
		ID: uuid.NewString(), GlobalInstanceID: instance, ZoneInstanceID: instance, ConnectTime: started,
		Version: insight.ZoneVersions{MeshCP: insight.ZoneVersion{Version: version.Program, GlobalCompatible: true}},
	}}}
}

// zoneTokens checks the tokens of proxies of the own zone.
type zoneTokens struct{ cp *ControlPlane }

var _ enrol.ZoneTokens = zoneTokens{}

// CheckToken implements enrol.ZoneTokens.
func (z zoneTokens) CheckToken(ctx context.Context, token string) error {
	return z.cp.people.CheckZoneToken(ctx, token)
}

// CheckProxy implements enrol.ZoneTokens.
func (z zoneTokens) CheckProxy(ctx context.Context, proxyType, token string) error {
	_, err := z.cp.people.CheckZoneProxy(ctx, z.Own(), proxyType, token)
	return err
}

// Own implements enrol.ZoneTokens.
func (z zoneTokens) Own() string { return z.cp.cfg.Zone.Own() }

// zoneProxyWritten acts on one event of a ZoneIngress. What is stored decides and not the event,
// which may be late.
func (cp *ControlPlane) zoneProxyWritten(ctx context.Context, name string) {
	node := mesh.ZoneNodeID(mesh.ProxyIngress, name)
	if cp.ownIngress(ctx, name) {
		cp.mesh.insights.Recall(mesh.ZoneNodeScope(mesh.ProxyIngress), name)
		cp.mesh.insights.Expect(node)
	} else {
		cp.mesh.insights.Forget(mesh.ZoneNodeScope(mesh.ProxyIngress), name)
		cp.dropNode(node)
		cp.loop.Forget(node)
	}
	cp.recheck(ctx, node)
}

// ownIngress reports whether an ingress exists in the own zone. A row that cannot be read counts
// as existing.
func (cp *ControlPlane) ownIngress(ctx context.Context, name string) (yes bool) {
	err := cp.store.View(ctx, func(r store.Reader) error {
		res, err := r.Get(mesh.ZoneIngresses, "", name)
		yes = err == nil && res.Spec.(*mesh.ZoneIngress).In(cp.cfg.Zone.Own(), cp.cfg.Zone.Own())
		return err
	})
	return yes || err != nil && !fault.Is(err, fault.NotFound)
}

// expectIngresses lists the ingresses of the own zone as nodes that may connect.
func (cp *ControlPlane) expectIngresses(r store.Reader) (names map[string]bool, unreadable []error, err error) {
	all, unreadable, err := store.ListReadable(r, mesh.ZoneIngresses, "")
	if err != nil {
		return nil, nil, fmt.Errorf("list ingresses: %w", err)
	}
	names = map[string]bool{}
	for _, res := range all {
		if res.Spec.(*mesh.ZoneIngress).In(cp.cfg.Zone.Own(), cp.cfg.Zone.Own()) {
			names[res.Name] = true
			cp.mesh.insights.Expect(mesh.ZoneNodeID(mesh.ProxyIngress, res.Name))
		}
	}
	return names, unreadable, nil
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
		Online: func(k *model.Kind, name string) bool {
			if k == mesh.ZoneIngresses {
				return cp.connected(mesh.ZoneNodeID(mesh.ProxyIngress, name))
			}
			return k == mesh.Zones && cp.zoneOnline(name)
		},
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
