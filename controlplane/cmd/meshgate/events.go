package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// follow acts on changes of the store that are no configuration of proxies.
func (cp *controlPlane) follow(ctx context.Context) error {
	return followStore(ctx, cp.store, cp.happened, func(ctx context.Context) {
		cp.log.Info("more has changed than the store remembers; everything is looked at again")
		if err := cp.reconcile(ctx); err != nil && ctx.Err() == nil {
			cp.log.Error("what has changed could not be looked at", "error", err.Error())
		}
	})
}

// followStore calls happened for every event from now on, until ctx ends, whose
// error it returns. Where more has happened than the store remembers it calls lost
// and goes on: the state that lost reads is as new as what follows.
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

// reconcile does what the events of all that may have happened would have done.
func (cp *controlPlane) reconcile(ctx context.Context) error {
	meshes, dataplanes := map[string]bool{}, map[model.Key]bool{}
	err := cp.store.View(ctx, func(r store.Reader) error {
		all, err := r.List(mesh.Meshes, store.Query{})
		if err != nil {
			return fmt.Errorf("list meshes: %w", err)
		}
		for _, m := range all {
			meshes[m.Name] = true
			ds, err := r.List(mesh.Dataplanes, store.Query{Scope: m.Name})
			if err != nil {
				return fmt.Errorf("list dataplanes of mesh %s: %w", m.Name, err)
			}
			for _, d := range ds {
				dataplanes[model.Key{Scope: m.Name, Name: d.Name}] = true
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	cp.mesh.insights.Prune(func(meshName, name string) bool {
		if dataplanes[model.Key{Scope: meshName, Name: name}] {
			return true
		}
		meshes[meshName] = true // maybe it is gone, too
		cp.forget(meshName, name)
		return false
	})
	for name := range meshes {
		cp.mesh.rotations.Changed(name)
	}
	for key := range dataplanes {
		cp.mesh.removals.Written(key.Scope, key.Name)
	}
	cp.recheck(ctx)
	return nil
}

// forget drops what is remembered of a dataplane that was deleted.
func (cp *controlPlane) forget(meshName, name string) {
	cp.mesh.removals.Deleted(meshName, name)
	cp.mesh.insights.Forget(meshName, name)
	cp.loop.Forget(mesh.NodeID(meshName, name))
	cp.mesh.renewals.Forget(meshName, name)
	cp.mesh.workloads.Forget(meshName, name)
	cp.mesh.rotations.ProxiesChanged(meshName)
}
