package publish

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan/edge"
	"github.com/meshgate/meshgate/xds/resource"
)

// Foreseen is what becomes of the connected nodes of one scope.
type Foreseen struct {
	Scope string
	// Mesh and Dataplanes are set for a mesh: its states, and those of its connected dataplanes
	// that the write deletes. Their proxies keep what they have until they are turned away.
	Mesh       *view.Imagined[*view.Mesh]
	Dataplanes []string
	// Compared counts the nodes that were looked at, Omitted those that were too many.
	Compared, Omitted int
	// Fates are those of the nodes whose set becomes another one, ordered by node.
	Fates []Fate
	// Failures are what is not made as configured after the write.
	Failures []ForeseenFailure
}

// Fate is what becomes of one node.
type Fate struct {
	Node string
	// Before and After were both planned from the same beginnings, so they differ by the write
	// alone. Held is what the node really has.
	Before, After, Held *resource.Set
	// Uncertain says that something cannot be made after the write, of which Held may have, or
	// get, a last good version that is not in After.
	Uncertain bool
}

// ForeseenFailure is a failure of some nodes.
type ForeseenFailure struct {
	Failure
	// Nodes counts them. It is 0 for a failure of the whole scope.
	Nodes int
	// Already says that it is there without the write.
	Already bool
}

// Foresee plans what an imagination says, for at most limit connected nodes, and publishes
// nothing. It plans each mesh from nothing as it was before the write, and then the write on top
// of it, so it takes as long as planning all these nodes anew. Gateways are planned on what their
// planners remember. It locks no scope while it plans. The error is that of ctx.
func (l *Loop) Foresee(ctx context.Context, im *Imagination, limit int) (out []Foreseen, err error) {
	room := limit
	add := func(f Foreseen) error {
		room -= f.Compared
		out = append(out, f)
		return ctx.Err()
	}
	for i := range im.planes {
		if err := add(l.foreseePlane(ctx, &im.planes[i], room)); err != nil {
			return nil, err
		}
	}
	for i := range im.meshes {
		if err := add(l.foreseeMesh(ctx, &im.meshes[i], room)); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b Foreseen) int { return cmp.Compare(a.Scope, b.Scope) })
	return out, nil
}

// notFollowed is the failure of a view that cannot take a write.
func (f *Foreseen) notFollowed(err error, of Failure) {
	of.Failure = failure{Cell: "view", Err: err, Kept: true}
	f.Failures = append(f.Failures, ForeseenFailure{Failure: of})
}

// foreseePlane foresees the gateways of a control plane. All of a variant have one fate.
func (l *Loop) foreseePlane(ctx context.Context, i *imaginedPlane, room int) (f Foreseen) {
	p := i.plane
	f.Scope = p.id()
	if i.Err != nil {
		f.notFollowed(i.Err, Failure{ControlPlane: p.name})
	}
	p.mu.Lock()
	variants := map[edge.Params]*foreseenVariant{}
	for _, id := range slices.Sorted(maps.Keys(p.nodes)) {
		if f.Compared >= room {
			f.Omitted++
			continue
		}
		f.Compared++
		params := p.nodes[id]
		if variants[params] == nil {
			c := p.variants[params]
			variants[params] = &foreseenVariant{planner: c.planner.copied(), held: c.result.Set}
		}
		variants[params].nodes = append(variants[params].nodes, id)
	}
	p.mu.Unlock()
	t := tally{}
	for _, v := range variants {
		if ctx.Err() != nil {
			return f
		}
		before, after := i.foresee(v, t)
		for _, id := range v.nodes {
			if after != nil && !before.Equal(after) {
				f.Fates = append(f.Fates, Fate{Node: id, Before: before, After: after, Held: v.held})
			}
		}
	}
	i.leftOut(t)
	f.Failures = append(f.Failures, t.list()...)
	f.order()
	return f
}

// foreseenVariant is a variant of gateways: a planner that remembers what theirs does, such as the
// last good versions of what cannot be made, and what they have.
type foreseenVariant struct {
	planner gatewayPlanner
	nodes   []string
	held    *resource.Set
}

// foresee plans a variant before and after the write, and notes the failures of its gateways.
// after is nil if it cannot be planned: it keeps what it has. It does so before the write, too.
func (i *imaginedPlane) foresee(v *foreseenVariant, t tally) (before, after *resource.Set) {
	var was, is edge.Result
	unplanned := guard(func() { was = v.planner.Plan(i.Before) })
	if unplanned != nil {
		was.Set = v.held
	}
	if err := guard(func() { is = v.planner.Plan(i.After) }); err != nil {
		t.note(Failure{ControlPlane: i.plane.name, Failure: failure{Cell: "plan", Err: err, Kept: true}}, len(v.nodes), unplanned != nil)
	}
	known := cells(was.Failures)
	for _, x := range is.Failures {
		t.note(Failure{ControlPlane: i.plane.name, Failure: x}, len(v.nodes), known[cellOf(x)])
	}
	return was.Set, is.Set
}

// leftOut notes what members of a group have in common.
func (i *imaginedPlane) leftOut(t tally) {
	of := func(g *view.Gateway) (out []failure) {
		for _, c := range g.LeftOut() {
			out = append(out, failure{Cell: c.Left.Kind + " " + c.Left.Name + " of " + c.Left.Scope, Err: view.Trouble(c)})
		}
		return out
	}
	known := cells(of(i.Before))
	for _, x := range of(i.After) {
		t.note(Failure{ControlPlane: i.plane.name, Failure: x}, 0, known[cellOf(x)])
	}
}

func (f *Foreseen) order() {
	slices.SortFunc(f.Fates, func(a, b Fate) int { return cmp.Compare(a.Node, b.Node) })
}
