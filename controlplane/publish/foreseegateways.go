package publish

import (
	"context"
	"maps"
	"slices"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan/edge"
	"github.com/meshgate/meshgate/xds/resource"
)

// foresee implements imagined. All gateways of a variant have one fate.
func (i *imaginedPlane) foresee(ctx context.Context, _ *Loop, room int) Foreseen {
	f, t, of := Foreseen{Scope: i.plane.id()}, tally{}, Failure{ControlPlane: i.plane.name}
	f.notFollowed(i.Err, of)
	for _, v := range i.plane.remembered(&f, room) {
		if ctx.Err() != nil {
			return f
		}
		f.Fates = append(f.Fates, v.foresee(ctx, &i.Imagined, of, t)...)
	}
	t.differ(of, leftOut(i.Before), leftOut(i.After), 0)
	f.complete(t)
	return f
}

// remembered copies what the planners of the variants remember, and counts the gateways.
func (p *gatewayPlane) remembered(f *Foreseen, room int) (out []*remembering[*view.Gateway]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	variants := map[edge.Params]*remembering[*view.Gateway]{}
	for _, id := range slices.Sorted(maps.Keys(p.nodes)) {
		if f.Compared >= room {
			f.Omitted++
			continue
		}
		f.Compared++
		params := p.nodes[id]
		v, c := variants[params], p.variants[params]
		if v == nil {
			v = &remembering[*view.Gateway]{held: map[string]*resource.Set{}}
			planner := c.planner.copied()
			v.plan = func(g *view.Gateway) planned { return plannedAlike(v.nodes, planner.Plan(g)) }
			variants[params], out = v, append(out, v)
		}
		v.nodes, v.held[id] = append(v.nodes, id), c.result.Set
	}
	return out
}

// plannedAlike is the plan of a variant.
func plannedAlike(nodes []string, r edge.Result) planned {
	out := planned{sets: map[string]*resource.Set{}, failures: map[string]lacking{"": {r.Failures, len(nodes)}}}
	for _, id := range nodes {
		out.sets[id] = r.Set
	}
	return out
}

// leftOut lists what members of a group have in common.
func leftOut(g *view.Gateway) (out []failure) {
	for _, c := range g.LeftOut() {
		out = append(out, failure{Cell: c.Left.Kind + " " + c.Left.Name + " of " + c.Left.Scope, Err: c})
	}
	return out
}
