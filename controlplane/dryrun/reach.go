package dryrun

import (
	"slices"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/publish"
)

// shows reports whether an actor may see what a write would do: an administrator, or whoever
// administrates every mesh and control plane in which something would be written, of which a node
// would get something else, or in which something cannot be made.
func (r *Runner) shows(who model.Actor, t *trial, seen []publish.Foreseen) bool {
	if who.Administrates() {
		return true
	}
	in := slices.Clone(t.in)
	for i := range seen {
		for _, f := range seen[i].Fates {
			mesh, controlPlane := nodes.ScopeOf(f.Node)
			in = append(in, access.Scope{Mesh: mesh, ControlPlane: controlPlane})
		}
		for _, f := range seen[i].Failures {
			in = append(in, access.Scope{Mesh: f.Mesh, ControlPlane: f.ControlPlane})
		}
	}
	judged := map[access.Scope]bool{}
	for _, s := range in {
		if judged[s] {
			continue
		}
		if judged[s] = true; r.Rules == nil || !r.Rules.Decide(who, access.Administrator, s).Allowed {
			return false
		}
	}
	return len(in) > 0
}

// scopeOf returns where a resource is. A mesh is in itself.
func scopeOf(res *model.Resource) access.Scope {
	switch {
	case res.Kind.Scoping == model.Mesh:
		return access.Scope{Mesh: res.Scope}
	case res.Kind.Scoping == model.ControlPlane:
		return access.Scope{ControlPlane: res.Scope}
	case res.Kind.Name == model.MeshKind:
		return access.Scope{Mesh: res.Name}
	}
	return access.Scope{}
}
