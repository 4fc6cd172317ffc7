package revoke

import (
	"context"
	"fmt"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// forgetReaders forgets the scopes that no known filter belongs to, in the store as well. Their
// filters were not seen for so long that they believe no Redis, and whatever links next is
// noted anew before it is told anything; see noteReader. Without this, what is remembered would
// grow with each control plane that there ever was.
func (r *Revoker) forgetReaders(ctx context.Context) error {
	gone := r.dropReaders()
	if len(gone) == 0 {
		return nil
	}
	_, err := r.o.Store.Update(ctx, model.Credential, func(tx store.Tx) error {
		for _, scope := range gone {
			if r.hasReaders(scope) { // it is back
				continue
			}
			if err := tx.Delete(readers, "", scope, 0); err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
		}
		return nil
	})
	if err == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, scope := range gone { // their rows are still there, so that this is repeated
		r.readers[scope] = true
	}
	return fmt.Errorf("forget scopes without filters: %w", err)
}

// dropReaders is forgetReaders in memory. While there may be filters of which nobody knows the
// scope, all scopes are kept.
func (r *Revoker) dropReaders() (gone []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u := r.audiences[unknownOnes]; r.strangers || u != nil && len(u.tally) > 0 {
		return nil
	}
	for scope := range r.readers {
		if a := r.audiences[scope]; a == nil || len(a.tally) == 0 {
			gone = append(gone, scope)
		}
	}
	for _, scope := range gone {
		delete(r.readers, scope)
		delete(r.reshapedAt, scope)
		delete(r.audiences, scope)
	}
	return gone
}
