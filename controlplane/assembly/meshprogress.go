package assembly

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/selection"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// meshProgress tells rotations what the proxies of a mesh hold. If a mesh is left through egresses,
// those of the zone have certificates of it and are proxies of it, too.
type meshProgress struct{ cp *ControlPlane }

// scopes are those of the nodes that may hold a certificate of a mesh or judge by its roots.
func (p meshProgress) scopes(meshName string) []string {
	out := p.own(meshName)
	others, _ := p.across(meshName)
	for _, other := range others {
		out = append(out, publish.MeshScope(other))
	}
	return out
}

// own are the scopes of the nodes that may hold a certificate of a mesh. The ingresses of the zone,
// which hold none, are among them: they answer as fast as egresses.
func (p meshProgress) own(meshName string) []string {
	out := []string{publish.MeshScope(meshName)}
	if p.leavesByEgress(meshName) {
		out = append(out, atEgresses(meshName)...)
	}
	return out
}

// atEgresses are the scopes that show what egresses have of a mesh. Only the first has nodes: these have
// a revision if all of the scopes show it. Otherwise an egress that keeps old roots, because nothing
// newer can be made of the mesh, would count as one that has confirmed the new ones.
func atEgresses(meshName string) []string {
	return []string{publish.ZoneScope, publish.EgressesScope, publish.EgressScope(meshName)}
}

// answering are those of its own scopes in which somebody can answer. Egresses for which nothing can be
// planned are not told of the root: one mesh that spoils the zone would stop the rotations of all meshes
// that are left through egresses.
func (p meshProgress) answering(meshName string, revision uint64) []string {
	for _, scope := range atEgresses(meshName) {
		if p.behind(scope, revision) {
			return []string{publish.MeshScope(meshName)}
		}
	}
	return p.own(meshName)
}

// asked are the scopes of a mesh, with others or without.
func (p meshProgress) asked(meshName string, others bool) []string {
	if others {
		return p.scopes(meshName)
	}
	return p.own(meshName)
}

// across lists the meshes whose proxies know the roots of a mesh: those with gateways that it may
// call and, if it has such gateways itself, all that may call these. callers says that it has: then
// not only gateways know its roots. A row that cannot be read counts as that of a mesh with such
// gateways.
func (p meshProgress) across(meshName string) (out []string, callers bool) {
	var all []*model.Resource
	_ = p.cp.store.View(context.Background(), func(r store.Reader) (err error) { // a step needs the store, too
		all, err = store.ListAll(r, mesh.Crossings, store.Query{})
		return err
	})
	called := func(res *model.Resource) bool {
		c, readable := res.Spec.(*mesh.Crossing)
		return !readable || len(c.Listeners) > 0
	}
	i := slices.IndexFunc(all, func(res *model.Resource) bool { return res.Name == meshName })
	if i < 0 {
		return nil, false // nobody else knows its roots
	}
	callers = called(all[i])
	for _, res := range all {
		if res.Name != meshName && (callers || called(res)) {
			out = append(out, res.Name)
		}
	}
	return out, callers
}

// leavesByEgress reports whether a mesh is left through egresses. One that cannot be read may be.
func (p meshProgress) leavesByEgress(meshName string) bool {
	leaves := true
	_ = p.cp.store.View(context.Background(), func(r store.Reader) error { // it may be
		res, err := r.Get(mesh.Meshes, "", meshName)
		if err == nil {
			leaves = res.Spec.(*mesh.Mesh).LeavesByEgress()
		}
		return err
	})
	return leaves
}

// ofSecret picks refusals of certificates and roots of a mesh: whoever refuses anything else may
// have these. A proxy of the mesh itself may refuse any secret.
func ofSecret(meshName string) func(snapshot.Rejection) bool {
	own := []string{mesh.SecretIdentity(meshName), mesh.SecretCA(meshName), mesh.SecretCrossing}
	return func(r snapshot.Rejection) bool {
		if r.Type != resource.Secret {
			return false
		}
		_, _, zonal := mesh.ParseZoneNode(r.Name)
		return !zonal && strings.HasPrefix(r.Name, mesh.NodeID(meshName, "")) || slices.ContainsFunc(r.Resources, func(name string) bool { return slices.Contains(own, name) })
	}
}

// Confirmed implements meshca.Progress.
func (p meshProgress) Confirmed(ctx context.Context, meshName string, revision uint64, others bool) error {
	_, err := p.cp.snapshots.WaitNodes(ctx, revision, p.asked(meshName, others), ofSecret(meshName))
	return err
}

// Unrefused implements meshca.Progress.
func (p meshProgress) Unrefused(ctx context.Context, meshName string, revision uint64) error {
	_, err := p.cp.snapshots.WaitRefusals(ctx, revision, p.answering(meshName, revision), ofSecret(meshName))
	return err
}

// Shown implements meshca.Progress.
func (p meshProgress) Shown(ctx context.Context, meshName string, revision uint64) error {
	_, err := p.cp.snapshots.WaitRefusals(ctx, revision, []string{publish.MeshScope(meshName)}, nil)
	return err
}

// Behind implements meshca.Progress.
func (p meshProgress) Behind(meshName string, revision uint64) (out []string) {
	others, _ := p.across(meshName)
	for _, name := range append([]string{meshName}, others...) {
		if p.behind(publish.MeshScope(name), revision) {
			out = append(out, "the proxies of mesh "+name)
		}
	}
	if !p.leavesByEgress(meshName) {
		return out
	}
	switch {
	case p.behind(publish.ZoneScope, revision):
		out = append(out, "the egresses")
	case p.behind(publish.EgressScope(meshName), revision):
		out = append(out, "the egresses in respect of this mesh alone")
	case p.behind(publish.EgressesScope, revision):
		out = append(out, "an egress that cannot listen where it is to")
	}
	return out
}

// behind reports whether a scope does not show a revision yet. One that is not known has no proxies.
func (p meshProgress) behind(scope string, revision uint64) bool {
	shown, known := p.cp.snapshots.Shown(scope)
	return known && shown < revision
}

// Lacking implements meshca.Progress.
func (p meshProgress) Lacking(meshName string, revision uint64) (silent, refusing []string) {
	scopes := p.scopes(meshName)
	refusing, _ = p.cp.snapshots.Refusers(revision, scopes, ofSecret(meshName))
	for _, node := range p.cp.snapshots.Progress(revision, scopes...).Waiting {
		if !slices.Contains(refusing, node) {
			silent = append(silent, node)
		}
	}
	return silent, refusing
}

// Left implements meshca.Progress.
func (p meshProgress) Left(meshName string, revision uint64, others bool) time.Time {
	scopes := p.answering(meshName, revision)
	if others {
		scopes = p.scopes(meshName)
	}
	_, left := p.cp.snapshots.Refusers(revision, scopes, ofSecret(meshName))
	return left
}

// Others implements meshca.Progress.
func (p meshProgress) Others(meshName string) []string {
	others, _ := p.across(meshName)
	return others
}

// Settled implements meshca.Progress. A dataplane or egress that holds no certificate, because it
// never ran or its last one has expired, has nothing that a rotation could invalidate.
func (p meshProgress) Settled(meshName string, revision uint64, life time.Duration) map[string]bool {
	out, leaves := map[string]bool{}, p.leavesByEgress(meshName)
	others, callers := p.across(meshName)
	err := p.cp.store.View(context.Background(), func(r store.Reader) error {
		dataplanes, err := r.List(mesh.Dataplanes, store.Query{Scope: meshName})
		if err != nil {
			return err
		}
		for _, d := range dataplanes {
			out[mesh.NodeID(meshName, d.Name)] = !p.cp.mesh.insights.MayHold(meshName, d.Name, life)
		}
		for _, other := range others {
			if dataplanes, err = store.ListAll(r, mesh.Dataplanes, store.Query{Scope: other}); err != nil {
				return err
			}
			for _, d := range dataplanes {
				spec, readable := d.Spec.(*mesh.Dataplane)
				if readable && !callers && !selection.Builtin(spec.Networking) {
					continue
				}
				out[mesh.NodeID(other, d.Name)] = !p.cp.mesh.insights.MayHold(other, d.Name, life)
			}
		}
		egresses, err := r.List(mesh.ZoneEgresses, store.Query{})
		for _, e := range egresses {
			own := e.Spec.(*mesh.ZoneEgress).In(p.cp.cfg.Zone.Own(), p.cp.cfg.Zone.Own())
			out[mesh.ZoneNodeID(mesh.ProxyEgress, e.Name)] = !leaves || !own || !p.cp.mesh.insights.MayHold(mesh.ZoneNodeScope(mesh.ProxyEgress), e.Name, life)
		}
		return err
	})
	if err != nil {
		p.cp.Log.Warn("dataplanes could not be listed; a rotation waits", "mesh", meshName, "error", err)
		return nil
	}
	together := [][]string{{publish.MeshScope(meshName)}} // one that stands still says nothing of the others
	if leaves {
		together = append(together, atEgresses(meshName))
	}
	for _, other := range others {
		together = append(together, []string{publish.MeshScope(other)})
	}
	for _, scopes := range together {
		for _, node := range p.cp.snapshots.Settled(revision, scopes, ofSecret(meshName)) {
			out[node] = true
		}
	}
	return out
}
