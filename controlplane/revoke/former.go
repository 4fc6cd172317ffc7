package revoke

import (
	"context"
	"errors"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// What filters were told of Redis before this process, if it does not know it or has no
// use for it. A filter goes on believing that until it hears otherwise.

// recall finds out what a predecessor may have told filters that nobody would take back
// else. mu need not be held yet.
func (r *Revoker) recall() {
	r.strangers = r.before.Forgotten
	if r.keeper != nil {
		return
	}
	if r.former = r.before.Epoch != 0; r.former && (!r.before.Told || !r.before.Within) {
		// No trust that it has confirmed is late enough, only that there is none.
		r.serversAt = everything
		r.advance()
	}
}

// leaveRedis stores, at the start of a process that uses no Redis, that what stands in one
// counts no more. Nobody watches it, nor how long its records live, so the next process
// that uses it must not believe it as its last user left it.
func (r *Revoker) leaveRedis(ctx context.Context) error {
	if r.keeper != nil || !r.former || !r.before.Clean {
		return nil
	}
	left := r.before
	left.Clean = false
	return r.persistEpoch(ctx, left)
}

// awaitsOrder reports whether Redis must be put in order before anything is confirmed,
// because filters may read it that nobody remembers. Without Redis nothing would take from
// them what they were told; they hear of it when they link. mu is held.
func (r *Revoker) awaitsOrder() bool { return r.strangers && r.keeper != nil }

// forgets reports whether filters may still read Redis that nobody remembers.
func (r *Revoker) forgets() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.strangers
}

// noteNoRedis stores that no filter which is known believes any Redis, so that the next
// process waits for none of them.
func (r *Revoker) noteNoRedis(ctx context.Context) error {
	r.mu.Lock()
	told, forgets := r.told(), r.strangers
	r.mu.Unlock()
	if news := r.former || forgets != r.before.Forgotten; !told || !news {
		return nil
	}
	return r.persistEpoch(ctx, Epoch{Log: r.history.id, Told: true, Within: true, Clean: true, Forgotten: forgets})
}

// forgetStrangers is forgetOld for filters that nobody remembers. mu is held.
func (r *Revoker) forgetStrangers() (some bool) {
	some = r.strangers && time.Since(r.started) >= contract.RememberFilter
	if some {
		r.strangers = false
		r.advance() // they may have been the last that a publication waited for
	}
	return some
}

// handOver stores when filters were seen and the time, in this order, and says that no
// write is under way any more. Filters that are noted as seen longer ago than the time says
// would be forgotten while they still believe Redis.
func (r *Revoker) handOver(ctx context.Context) error {
	err, k := r.persistKnown(ctx, true), r.keeper
	if err == nil {
		err = r.noteTimes(ctx)
	}
	if k == nil {
		return errors.Join(err, r.noteNoRedis(ctx))
	}
	if err != nil || k.doubt != "" || k.stored.Log != r.history.id {
		return err
	}
	last := k.stored
	last.Clean, last.Told, last.Forgotten = true, k.allTold(), r.forgets()
	return r.persistEpoch(ctx, last)
}
