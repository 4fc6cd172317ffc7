package admit

import (
	"context"
	"errors"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Rehearsal looks at writes that are undone. Its functions run in the transaction, and like the
// transaction they may run more than once. An error of theirs is the error of the write.
type Rehearsal struct {
	// Before, if set, sees the state before anything was written.
	Before func(r store.Reader) error
	// After sees the state when everything was written that the write would write, records
	// and revocations included. subject is the resource that was asked for.
	After func(tx store.Tx, subject model.Key) error
}

type rehearsalKey struct{}

// Rehearse returns a context of which no gate commits a write. A write under it does all that
// it would do up to its commit, so its error is the same; then it is undone. Nothing is
// published, and no revocation begins. Its outcome has the changes that were undone, and the
// revision on which they were based. The context reaches every write of a request, so none
// can be made by mistake.
func Rehearse(ctx context.Context, r *Rehearsal) context.Context {
	return context.WithValue(ctx, rehearsalKey{}, r)
}

// Rehearsed reports whether the writes of a context are undone. Hooks need not make for them
// what is costly and used nowhere.
func Rehearsed(ctx context.Context) bool { return rehearsalOf(ctx) != nil }

func rehearsalOf(ctx context.Context) *Rehearsal {
	r, _ := ctx.Value(rehearsalKey{}).(*Rehearsal)
	return r
}

// rehearse runs a write in a transaction and undoes it.
func (g *Gate) rehearse(ctx context.Context, r *Rehearsal, fn work) (store.Commit, error) {
	var out store.Commit
	// The strictest class may write everything, and does not matter without a commit.
	_, err := g.store.Update(ctx, model.Config, func(tx store.Tx) error {
		if r.Before != nil {
			if err := r.Before(tx); err != nil {
				return err
			}
		}
		subject, err := g.enact(ctx, tx, model.Config, fn)
		if err != nil {
			return err
		}
		out = store.Commit{Revision: tx.Revision(), Changes: tx.Changes()}
		if err := r.After(tx, subject); err != nil {
			return err
		}
		return store.ErrRehearsed
	})
	if errors.Is(err, store.ErrRehearsed) {
		return out, nil
	}
	return store.Commit{}, err
}
