package assembly

import (
	"context"
	"encoding/json"
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

// completeDataplanes has the gate write the zone of this control plane into Dataplanes, where an operator has
// named the zone. The control plane above several zones is in none.
func (cp *ControlPlane) completeDataplanes() {
	if cp.cfg.Zone.Name != "" && cp.cfg.Mode != config.ModeGlobal {
		cp.gate.Complete(mesh.Dataplanes, mesh.InZone(cp.cfg.Zone.Name))
	}
}

// completeStoredDataplanes does so with Dataplanes that were stored before the zone had its name. Whoever
// reads tags (planning, certificates, tokens) reads what is stored, so none of them sees another zone.
func (cp *ControlPlane) completeStoredDataplanes(ctx context.Context) error {
	var meshes []*model.Resource
	err := cp.store.View(ctx, func(r store.Reader) (err error) {
		// Those of a mesh that cannot be decoded are not planned. They are completed after the start
		// that can read it.
		meshes, _, err = store.ListReadable(r, mesh.Meshes, "")
		return err
	})
	gate := cp.gate.As(model.System("lifecycle"))
	for _, m := range meshes {
		if err == nil {
			err = gate.CompleteStored(ctx, mesh.Dataplanes, m.Name)
		}
	}
	return err
}

// ownZone is what is known about the zone of this process: that it runs since it was started.
func ownZone(instance string, started time.Time) *insight.ZoneInsight {
	return &insight.ZoneInsight{Subscriptions: []insight.ZoneSubscription{{
		ID: uuid.NewString(), GlobalInstanceID: instance, ZoneInstanceID: instance, ConnectTime: started,
		Version: insight.ZoneVersions{MeshCP: insight.ZoneVersion{Version: version.Program, GlobalCompatible: true}},
	}}}
}

// zoneSettings are what clients read of the configuration of a zone, by section; nil stands for a setting
// that is no section. Whoever may read zones sees them, so there is nothing of who may do what, and no
// path: GET /config shows these to those who may read it.
var zoneSettings = map[string][]string{
	"apiServer":       {"port", "readOnly"},
	"bootstrapServer": {"port"},
	"defaults":        {"skipMeshCreation"},
	"diagnostics":     {"serverPort"},
	"environment":     nil,
	"guiServer":       {"enabled"},
	"mode":            nil,
	"store":           {"type"},
	"xdsServer":       {"grpcPort", "diagnosticsPort"},
}

// shownOfZone returns those of some settings that [zoneSettings] names.
func shownOfZone(settings map[string]any) map[string]any {
	out := map[string]any{}
	for name, members := range zoneSettings {
		if members == nil {
			out[name] = settings[name]
			continue
		}
		all, part := settings[name].(map[string]any), map[string]any{}
		for _, m := range members {
			part[m] = all[m]
		}
		out[name] = part
	}
	return out
}

// zoneInsight is what is known about the own zone, with what clients read of the configuration in
// force.
func (cp *ControlPlane) zoneInsight() *insight.ZoneInsight {
	in := *cp.ownZone
	in.Subscriptions = slices.Clone(in.Subscriptions)
	if text, err := json.Marshal(shownOfZone(cp.settings())); err == nil { // its values are texts, numbers and lists of them
		in.Subscriptions[0].Config = string(text)
	}
	return &in
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

// zoneProxyWritten acts on one event of the resource of a proxy of a zone. What is stored decides and not the event,
// which may be late.
func (cp *ControlPlane) zoneProxyWritten(ctx context.Context, op store.Op, proxyType, name string) {
	node, scope := mesh.ZoneNodeID(proxyType, name), mesh.ZoneNodeScope(proxyType)
	if there, instance := cp.ownZoneProxy(ctx, proxyType, name); there {
		cp.mesh.removals.Written(scope, name, instance)
		cp.mesh.insights.Recall(scope, name)
		if op == store.Created {
			cp.mesh.insights.Created(scope, name)
		} else {
			cp.mesh.insights.Expect(node)
		}
	} else {
		cp.mesh.removals.Deleted(scope, name)
		cp.forgetZoneProxy(proxyType, name)
	}
	cp.recheck(ctx, node)
}

// forgetZoneProxy drops everything remembered about a proxy of the own zone that does not exist.
func (cp *ControlPlane) forgetZoneProxy(proxyType, name string) {
	node := mesh.ZoneNodeID(proxyType, name)
	cp.mesh.insights.Forget(mesh.ZoneNodeScope(proxyType), name)
	cp.dropNode(node)
	cp.loop.Forget(node)
	if proxyType == mesh.ProxyEgress {
		cp.mesh.workloads.ForgetEgress(name)
		cp.mesh.rotations.EgressesChanged()
	}
}

// ownZoneProxy reports whether a proxy of a zone exists in the own zone. A row that cannot be read counts
// as existing. instance is the agent that has registered it, if one has.
func (cp *ControlPlane) ownZoneProxy(ctx context.Context, proxyType, name string) (yes bool, instance string) {
	err := cp.store.View(ctx, func(r store.Reader) error {
		res, err := r.Get(mesh.ZoneKind(proxyType), "", name)
		if err == nil {
			yes, instance = res.Spec.(mesh.Zonal).In(cp.cfg.Zone.Own(), cp.cfg.Zone.Own()), instanceOf(res)
		}
		return err
	})
	return yes || err != nil && !fault.Is(err, fault.NotFound), instance
}

// expectZoneProxies lists the proxies of the own zone as nodes that may connect. It returns their
// ids.
func (cp *ControlPlane) expectZoneProxies(r store.Reader) (ids map[string]bool, unreadable []error, err error) {
	ids = map[string]bool{}
	for _, t := range mesh.ZoneProxies {
		all, bad, err := store.ListReadable(r, mesh.ZoneKind(t), "")
		if err != nil {
			return nil, nil, fmt.Errorf("list proxies of the zone of the type %s: %w", t, err)
		}
		unreadable = append(unreadable, bad...)
		for _, res := range all {
			if id := mesh.ZoneNodeID(t, res.Name); res.Spec.(mesh.Zonal).In(cp.cfg.Zone.Own(), cp.cfg.Zone.Own()) {
				ids[id] = true
				cp.mesh.removals.Written(mesh.ZoneNodeScope(t), res.Name, instanceOf(res))
				cp.mesh.insights.Expect(id)
			}
		}
	}
	return ids, unreadable, nil
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
			if t := mesh.ZoneProxyOf(k.Name); t != "" {
				return cp.connected(mesh.ZoneNodeID(t, name))
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
