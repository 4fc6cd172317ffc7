package publish

import (
	"cmp"
	"context"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/resource"
)

// remembering are connected nodes that are planned together, by planners that remember what those of
// the nodes do, such as the last good versions of what cannot be made: the gateways of a variant, or
// the proxies of the zone. So it is exact what becomes of them.
type remembering[S view.State[S]] struct {
	nodes []string
	// held is what they have.
	held map[string]*resource.Set
	plan func(S) planned
}

// planned is what a plan makes of nodes. Those without a set keep what they have.
type planned struct {
	sets map[string]*resource.Set
	// failures are what cannot be made, by whose it is.
	failures map[string]lacking
}

// lacking is what cannot be made of some nodes.
type lacking struct {
	failures []failure
	nodes    int
}

// foresee plans the nodes before and after a write, and notes what cannot be made. If nothing can be
// planned, they keep what they have: after the write, and before it, too. If ctx ends, the second plan is
// not made: it takes as long as the first, and nobody waits for it any more.
func (r *remembering[S]) foresee(ctx context.Context, i *view.Imagined[S], of Failure, t tally) (fates []Fate) {
	var was, is planned
	unplanned := guard(func() { was = r.plan(i.Before) })
	if ctx.Err() != nil {
		return nil
	}
	if err := guard(func() { is = r.plan(i.After) }); err != nil {
		t.unplanned(of, err, len(r.nodes), unplanned != nil)
		return nil
	}
	for whose, l := range is.failures {
		t.differ(of, was.failures[whose].failures, l.failures, l.nodes)
	}
	for _, node := range r.nodes {
		before, after := cmp.Or(was.sets[node], r.held[node]), is.sets[node]
		if after != nil && !before.Equal(after) {
			fates = append(fates, Fate{Node: node, Before: before, After: after, Held: r.held[node]})
		}
	}
	return fates
}
