package sidecar

import (
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/selection"
)

// Every proxy has the roots of its own mesh. Roots of others are for those proxies alone that judge by
// them: those of all meshes for gateways with a listener that other meshes may call, and those of one
// mesh for who calls its gateways. A root of another mesh is no business of anybody else, who would
// have to confirm it, could refuse it, and would hold that mesh's rotation up.

// judge is a cluster or listener that judges the other end by roots of another mesh, or of all.
type judge struct {
	kind        resource.TypeURL
	name, roots string
}

// judging is a kind of destinations that are judged by the roots of another mesh.
type judging interface {
	DestinationKind
	// JudgesBy returns the name of the secret with these roots.
	JudgesBy(tags mesh.Tags) string
}

// trust makes the secrets with roots, and marks who has other ones or listens by them. One that cannot
// be made is missing, and no connection is accepted without it. It notices every difference itself: a
// change of one kind must not hide one of another that comes with it.
func (p *Planner) trust() {
	own, others, was := p.ca, p.others, p.crossed
	p.others = others.Become(p.roots())
	var roots []*resource.Resource
	if t := p.state.Trust(); t != nil {
		if r, err := trusted(caKey{p.state.Name(), string(t.Spec.Roots)}); err == nil {
			roots = append(roots, r)
		}
	}
	if p.ca = own.Become(roots); p.ca != own {
		p.allMembers()
	}
	for _, r := range p.reaches {
		if !p.crossed.same(&was) && r.listensAcross() {
			p.moved[r] = struct{}{}
		}
		if !r.judgesOtherwise(others, p.others) {
			continue
		}
		for c := range r.classes {
			for x := range c.members {
				p.loose[x] = struct{}{}
			}
		}
	}
}

// judgesOtherwise reports whether some roots by which a reach judges differ between two tables.
func (r *reach) judgesOtherwise(a, b *resource.Table) bool {
	return a != b && slices.ContainsFunc(r.judges, func(j judge) bool {
		x, y := a.Get(j.roots), b.Get(j.roots)
		return (x == nil) != (y == nil) || x != nil && x.Version != y.Version
	})
}

// listensAcross reports whether a reach is that of a gateway with a listener for other meshes.
func (r *reach) listensAcross() bool {
	return r.gateway != nil && slices.ContainsFunc(r.gateway.Listeners, func(l selection.GatewayListener) bool { return l.Spec.CrossMesh })
}

// judge lists what of a reach judges by roots of others. That follows from the names of clusters, and
// from what listeners were made of.
func (p *Planner) judge(r *reach) {
	r.judges = nil
	for _, name := range r.front.across {
		r.judges = append(r.judges, judge{resource.Listener, name, mesh.SecretCrossing})
	}
	for i, k := range p.kinds {
		by, is := k.(judging)
		if !is || !p.locates(k) {
			continue
		}
		for _, o := range r.outbounds {
			for j := range o.part.made {
				if m := &o.part.made[j]; m.kind == i {
					r.judges = append(r.judges, judge{resource.Cluster, m.cluster, by.JudgesBy(tagsOf(m.tags))})
				}
			}
		}
	}
}

// judgedBy returns the roots of others by which something in the tables of a proxy judges: a policy may
// have removed what others of the reach have.
func (p *Planner) judgedBy(r *reach, tables map[resource.TypeURL]*resource.Table) (out []*resource.Resource) {
	for _, j := range r.judges {
		roots := p.others.Get(j.roots)
		if roots != nil && !slices.Contains(out, roots) && tables[j.kind].Get(j.name) != nil {
			out = append(out, roots)
		}
	}
	return out
}
