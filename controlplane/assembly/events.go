package assembly

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
)

// follow acts on changes of the store that are not configuration of proxies.
func (cp *ControlPlane) follow(ctx context.Context) error {
	told := cp.meters.convergence.Told
	told(cp.store.Revision()) // earlier commits are not measured
	cp.ready.conditions.Probe(conditionSigningKeys, func(ctx context.Context) { cp.judgeSigningKeys(ctx) })
	cp.judgeSigningKeys(ctx)
	return followStore(ctx, cp.store, func(ctx context.Context, e store.Event) {
		told(e.Revision)
		cp.happened(ctx, e)
	}, func(ctx context.Context) {
		told(cp.store.Revision())
		cp.Log.Info("more has changed than the store remembers; everything is looked at again")
		if err := cp.reconcile(ctx); err != nil && ctx.Err() == nil {
			cp.Log.Error("what has changed could not be looked at", "error", err.Error())
		}
	})
}

// followStore calls happened for every event from now on, until ctx ends, and returns the
// error of ctx. If more events have happened than the store remembers, it calls lost and goes
// on. The state that lost reads is at least as new as the revision from which it goes on.
func followStore(ctx context.Context, s store.Store, happened func(context.Context, store.Event), lost func(context.Context)) error {
	after := s.Revision()
	for {
		for events, err := range s.Watch(ctx, after) {
			if _, forgotten := errors.AsType[*store.HistoryLost](err); forgotten {
				break
			}
			if err != nil {
				return err
			}
			for _, e := range events {
				happened(ctx, e)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		after = s.Revision()
		lost(ctx)
	}
}

// reconcile does what the missed events would have done. It leaves as it is what belongs to
// rows that cannot be read.
func (cp *ControlPlane) reconcile(ctx context.Context) error {
	meshes, dataplanes, ofZone := map[string]bool{}, map[model.Key]string{}, map[string]bool{}
	var unreadable []error
	err := cp.store.View(ctx, func(r store.Reader) error {
		all, bad, err := store.ListReadable(r, mesh.Meshes, "")
		if err != nil {
			return fmt.Errorf("list meshes: %w", err)
		}
		unreadable = bad
		for _, m := range all {
			meshes[m.Name] = true
			ds, bad, err := store.ListReadable(r, mesh.Dataplanes, m.Name)
			if err != nil {
				return fmt.Errorf("list dataplanes of mesh %s: %w", m.Name, err)
			}
			unreadable = append(unreadable, bad...)
			for _, d := range ds {
				dataplanes[model.Key{Scope: m.Name, Name: d.Name}] = instanceOf(d)
			}
		}
		var worse []error
		ofZone, worse, err = cp.expectZoneProxies(r)
		unreadable = append(unreadable, worse...)
		return err
	})
	for _, bad := range unreadable {
		cp.Log.Error("a row cannot be read; what is known of it stays as it is", "error", bad)
	}
	if err == nil {
		cp.mesh.insights.Prune(func(meshName, name string) bool {
			for _, t := range mesh.ZoneProxies {
				if meshName == mesh.ZoneNodeScope(t) {
					there := ofZone[mesh.ZoneNodeID(t, name)]
					if !there {
						there, _ = cp.ownZoneProxy(ctx, t, name)
					}
					if !there {
						cp.forgetZoneProxy(t, name)
					}
					return there
				}
			}
			_, there := dataplanes[model.Key{Scope: meshName, Name: name}]
			if !there {
				there, _ = cp.stored(ctx, meshName, name)
			}
			if there {
				return true
			}
			meshes[meshName] = true // the mesh itself may be gone as well
			cp.forget(meshName, name)
			return false
		})
		for name := range meshes {
			cp.mesh.rotations.Changed(name)
		}
		for key, instance := range dataplanes {
			cp.mesh.removals.Written(key.Scope, key.Name, instance)
			cp.remember(key.Scope, key.Name)
			cp.mesh.insights.Expect(mesh.NodeID(key.Scope, key.Name))
		}
	}
	err = errors.Join(err, cp.endDeleted(ctx))
	cp.recheck(ctx)
	cp.uploadedChanged()
	cp.judgeSigningKeys(ctx)
	cp.renewTokens.add(cp.mesh.admin.Linked()...)
	return err
}

// endDeleted forgets the control planes that were deleted, of those that the loop follows or that have
// gateways. The default one exists always. One whose row cannot be read counts as existing.
func (cp *ControlPlane) endDeleted(ctx context.Context) error {
	known := cp.loop.ControlPlanes() // before the store is read: one that is created in between is not taken for a deleted one
	for _, n := range cp.mesh.insights.Nodes() {
		if n.Type == insight.Gateway {
			known = append(known, n.Scope)
		}
	}
	slices.Sort(known)
	var gone []string
	err := cp.store.View(ctx, func(r store.Reader) error {
		for _, name := range slices.Compact(known) {
			if name == model.DefaultControlPlane {
				continue
			}
			if _, err := r.Get(cloud.ControlPlanes, "", name); fault.Is(err, fault.NotFound) {
				gone = append(gone, name)
			}
		}
		return nil
	})
	for _, name := range gone {
		cp.forgetControlPlane(name)
	}
	return err
}

// forgetControlPlane drops what is remembered about a deleted control plane and its gateways. Without it,
// they would be away for ever, and would keep signing keys from being deleted. What the revoker knows of
// their filters stays: a process of a gateway may still run, and revocations wait for it.
func (cp *ControlPlane) forgetControlPlane(name string) {
	cp.loop.Deleted(name)
	for _, n := range cp.mesh.insights.Nodes() {
		if n.Type == insight.Gateway && n.Scope == name {
			cp.mesh.insights.Forget(publish.ControlPlaneScope(name), n.Name)
			cp.dropNode(n.ID)
		}
	}
}

// stored reports whether a Dataplane exists. A row that cannot be read counts as existing,
// because forgetting its proxy could not be undone. instance is the agent that has registered it,
// if one has.
func (cp *ControlPlane) stored(ctx context.Context, meshName, name string) (yes bool, instance string) {
	err := cp.store.View(ctx, func(r store.Reader) error {
		res, err := r.Get(mesh.Dataplanes, meshName, name)
		if err == nil {
			instance = instanceOf(res)
		}
		return err
	})
	return !fault.Is(err, fault.NotFound), instance
}

// instanceOf returns the agent that has registered a resource, empty if none has.
func instanceOf(res *model.Resource) string {
	return model.LabelsOf(res.Spec)[mesh.LabelInstance]
}

// remember undoes a forget that came too late. This happens when a Dataplane was deleted and
// created again, and its proxy connected, before the deletion was acted on. The certificate
// is renewed at once, because its renewal time is no longer known.
func (cp *ControlPlane) remember(meshName, name string) {
	cp.mesh.insights.Recall(meshName, name)
	_, secured := cp.snapshots.Get(mesh.NodeID(meshName, name)).Generation(mesh.SecretIdentity(meshName))
	if secured && !cp.mesh.renewals.Noted(meshName, name) {
		now := time.Now()
		cp.mesh.renewals.Note(meshName, name, now, now)
	}
}

// forget drops everything remembered about a deleted dataplane.
func (cp *ControlPlane) forget(meshName, name string) {
	cp.mesh.removals.Deleted(meshName, name)
	cp.mesh.insights.Forget(meshName, name)
	cp.dropNode(mesh.NodeID(meshName, name))
	cp.loop.Forget(mesh.NodeID(meshName, name))
	cp.mesh.renewals.Forget(meshName, name)
	cp.mesh.workloads.Forget(meshName, name)
	cp.mesh.rotations.ProxiesChanged(meshName)
}

// enrolled plans a connected gateway again with the parameters of its latest enrolment. A
// gateway may start without a control plane and enrol while it is already connected.
func (cp *ControlPlane) enrolled(ctx context.Context, node string) {
	cp.mesh.insights.Expect(node)
	if err := cp.loop.Enrolled(ctx, node); err != nil {
		cp.Log.Warn("a gateway has enrolled and keeps its configuration until it connects again", "node", node, "error", err)
	}
}
