package dryrun

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/turns"
	"github.com/meshgate/meshgate/controlplane/view"
)

// Limits of a dry run.
const (
	// Patience is how long an answer may take. It is below the write timeout of the servers.
	Patience = 25 * time.Second
	// MaxNodes is how many nodes are compared.
	MaxNodes = 2000
	// attempts is how often the write is tried on the states that views show. After that,
	// these are read in the transaction.
	attempts = 3
)

// Runner makes dry runs. It is safe for concurrent use.
type Runner struct {
	Loop *publish.Loop
	// Latest returns the newest revision of the store.
	Latest func() uint64
	// Turns bounds how many dry runs of administrators there are at once, and Others those of
	// everybody else, who cannot keep administrators waiting.
	Turns, Others *turns.Queue
	// Rules say who may see what a write would do. Without them, only administrators may.
	Rules *access.Rules
	// MaxNodes bounds the nodes that are compared; [MaxNodes] if it is 0.
	MaxNodes int

	// planning, if set, is called when the write is undone, before anything is planned.
	planning func()
}

// Run calls write with a context under which nothing is committed, possibly more than once. An
// error of write is returned as it is: it is the error of the real write. If write succeeds, the
// answer says what it would have done. Configurations are only shown to those who administrate all
// that they concern. Further errors are [turns.ErrFull] if too many ask at once, and Unavailable if it takes too long.
func (r *Runner) Run(ctx context.Context, write func(context.Context) error) (*Answer, error) {
	asked := ctx
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	who, _ := model.ActorOf(ctx)
	queue := r.Others
	// By the rules, and not by who the caller is: a role may make an administrator, too.
	if r.Rules.Decide(who, access.Administrator, access.Scope{}).Allowed {
		queue = r.Turns
	}
	if err := queue.Enter(ctx); err != nil {
		return nil, err
	}
	defer queue.Leave()
	t, err := r.rehearse(ctx, write)
	if err != nil && asked.Err() == nil && errors.Is(err, ctx.Err()) {
		return nil, slow(err) // the patience of a dry run, which the real write does not have
	} else if err != nil {
		return nil, err
	}
	if r.planning != nil {
		r.planning()
	}
	limit := r.MaxNodes
	if limit == 0 {
		limit = MaxNodes
	}
	seen, err := r.Loop.Foresee(ctx, t.imagined, limit)
	if err != nil {
		return nil, slow(err)
	}
	return t.answer(ctx, seen, r.shows(who, t, seen))
}

// slow is the error of a dry run that takes too long. Who asks again at once would only add to what is done.
func slow(err error) error {
	return fault.Wrap(fault.Unavailable, err, "it takes too long to say what the write would do: ask again").Again(5 * time.Second)
}

// trial is what was seen of a write before it was undone.
type trial struct {
	verdict  string
	revision uint64
	records  []store.ChangeRecord
	imagined *publish.Imagination
	// late lists scopes whose views show another revision.
	late []string
	// in lists where something would be written.
	in []access.Scope
}

// rehearse has the write made and undone until the views of everything that it concerns have
// taken it.
func (r *Runner) rehearse(ctx context.Context, write func(context.Context) error) (*trial, error) {
	var late []string
	for n := range attempts + 1 {
		t := &trial{verdict: Unchanged, revision: r.Latest(), imagined: &publish.Imagination{}}
		var base *publish.Base
		rehearsal := &admit.Rehearsal{After: func(tx store.Tx, subject model.Key) error {
			t.imagined, t.late = r.Loop.Imagine(view.DraftOf(tx), base)
			return t.take(ctx, tx, subject)
		}}
		if n == attempts {
			rehearsal.Before = func(reader store.Reader) error {
				base = r.Loop.ReadBase(view.Draft{Reader: reader}, late)
				return nil
			}
		}
		if err := write(admit.Rehearse(ctx, rehearsal)); err != nil {
			return nil, err
		}
		if len(t.late) == 0 {
			return t, nil
		}
		late = slices.Compact(slices.Sorted(slices.Values(append(late, t.late...)))) // each is read once
		if err := r.Loop.Reached(ctx, t.revision, t.late); err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "what was written last is not planned yet: ask again").Again(time.Second)
		}
	}
	return nil, errBusy
}

// errBusy is for a state that changes faster than it can be looked at.
var errBusy error = fault.New(fault.Unavailable, "the configuration changes too fast to say what the write would do: ask again").Again(time.Second)

// take takes what the transaction has written.
func (t *trial) take(ctx context.Context, tx store.Tx, subject model.Key) error {
	who, _ := model.ActorOf(ctx)
	records, err := changes.Records(tx.Changes(), who, model.OriginOf(ctx), subject)
	if err != nil {
		return errors.Join(fault.New(fault.Internal, "a change cannot be recorded"), err)
	}
	t.records, t.revision, t.verdict = records, tx.Revision(), Unchanged
	for i := range records {
		if c := &records[i]; c.Op != store.Updated || len(c.Members) > 0 || c.More > 0 {
			t.verdict = Updated
		}
	}
	t.in = nil
	for _, c := range tx.Changes() {
		t.in = append(t.in, scopeOf(cmp.Or(c.New, c.Old)))
		switch {
		case c.New != nil && c.New.Key() == subject && c.Op == store.Created:
			t.verdict = Created
		case c.Old != nil && c.Old.Key() == subject && c.Op == store.Deleted:
			t.verdict = Deleted
		}
	}
	return nil
}
