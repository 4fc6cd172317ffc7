package publish

import (
	"cmp"
	"context"
	"slices"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/resource"
)

// Foreseen is what becomes of the connected nodes of one scope.
type Foreseen struct {
	Scope string
	// Mesh is set for a mesh: its states.
	Mesh *view.Imagined[*view.Mesh]
	// Gone are the dataplanes of the mesh, or the proxies of the zone by the names of [ZoneProxy],
	// that are connected and that the write deletes. They keep what they have until they are
	// turned away.
	Gone []string
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
// of it, so it takes as long as planning all these nodes anew. Gateways and proxies of the zone are
// planned on what their planners remember. It locks no scope while it plans. The error is that of
// ctx.
func (l *Loop) Foresee(ctx context.Context, im *Imagination, limit int) (out []Foreseen, err error) {
	room := limit
	for _, i := range im.scopes {
		f := i.foresee(ctx, l, room)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		room -= f.Compared
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Foreseen) int { return cmp.Compare(a.Scope, b.Scope) })
	return out, nil
}

// choose returns so many of some nodes as there is room for. If they are too many, those that are
// written come first, then one of each sort, so that what is left out has likely its like among the
// others.
func choose(all []string, room int, written func(string) bool, sort func(string) string) []string {
	if len(all) <= room {
		return all
	}
	var first, second, third []string
	seen := map[string]bool{}
	for _, name := range all {
		of := sort(name)
		switch {
		case written(name):
			first = append(first, name)
		case !seen[of]:
			second = append(second, name)
		default:
			third = append(third, name)
		}
		seen[of] = true
	}
	return slices.Concat(first, second, third)[:max(room, 0)]
}

// notFollowed notes why a view cannot take a write, if it cannot.
func (f *Foreseen) notFollowed(err error, of Failure) {
	if err != nil {
		of.Failure = failure{Cell: "view", Err: err, Kept: true}
		f.Failures = append(f.Failures, ForeseenFailure{Failure: of})
	}
}

// complete adds the failures of nodes, and puts everything in order.
func (f *Foreseen) complete(t tally) {
	f.Failures = append(f.Failures, t.list()...)
	slices.SortFunc(f.Fates, func(a, b Fate) int { return cmp.Compare(a.Node, b.Node) })
}
