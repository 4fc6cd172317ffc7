package dryrun

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/publish"
)

// Planning has fn called when a write is undone, before anything is planned.
func (r *Runner) Planning(fn func()) { r.planning = fn }

// Grouped groups what was foreseen, and returns how many groups there are.
func Grouped(ctx context.Context, seen []publish.Foreseen) (Counts, int, error) {
	s := shower{ctx: ctx, answer: &Answer{}}
	groups, err := s.group(seen)
	return s.answer.Nodes, len(groups), err
}
