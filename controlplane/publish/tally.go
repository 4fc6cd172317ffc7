package publish

import (
	"fmt"
	"maps"
	"slices"
)

// tally counts the nodes of failures.
type tally map[string]*ForeseenFailure

// note counts a failure. It is there already only if it is so for all.
func (t tally) note(f Failure, nodes int, already bool) {
	k := cellOf(f.Failure)
	if known := t[k]; known != nil {
		known.Nodes += nodes
		known.Already = known.Already && already
		return
	}
	t[k] = &ForeseenFailure{f, nodes, already}
}

// differ counts what cannot be made of some nodes after a write. It is there already if it cannot be
// made before it, and then not told if it only leads nowhere.
func (t tally) differ(of Failure, was, is []failure, nodes int) {
	known := cells(was)
	for _, x := range is {
		if already := known[cellOf(x)]; !already || !x.Awaited {
			of.Failure = x
			t.note(of, nodes, already)
		}
	}
}

// unplanned counts nodes that cannot be planned at all, and keep everything.
func (t tally) unplanned(of Failure, err error, nodes int, already bool) {
	of.Failure = failure{Cell: cellPlan, Err: err, Kept: true}
	t.note(of, nodes, already)
}

// list returns what is new first.
func (t tally) list() (out []ForeseenFailure) {
	for _, k := range slices.Sorted(maps.Keys(t)) {
		out = append(out, *t[k])
	}
	slices.SortStableFunc(out, func(a, b ForeseenFailure) int {
		if a.Already == b.Already {
			return 0
		} else if a.Already {
			return 1
		}
		return -1
	})
	return out
}

// cells returns which failures are there.
func cells(fs []failure) map[string]bool {
	out := map[string]bool{}
	for _, f := range fs {
		out[cellOf(f)] = true
	}
	return out
}

// cellOf tells failures apart.
func cellOf(f failure) string { return fmt.Sprint(f.Awaited, f.Kept, f.Cell, " ", f.Err) }
