package revoke

import (
	"context"
	"errors"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// This file handles what filters were told about Redis before this process, if this process
// does not know it or uses no Redis. A filter keeps believing what it was told until it
// hears otherwise.

// recall finds out what a predecessor may have told filters that nothing else would
// withdraw. It may be called without mu before the Revoker is used.
func (r *Revoker) recall() {
	r.strangers = r.before.Forgotten
	if r.keeper != nil {
		return
	}
	if r.former = r.before.Epoch != 0; r.former && (!r.before.Told || !r.before.Within) {
		// No later trust can confirm this, only the confirmation that there is none.
		r.serversAt = everything
		r.advance(nil)
	}
}

// leaveRedis stores, at the start of a process without Redis, that the contents of a Redis
// used before no longer count. This process watches neither that Redis nor the lifetime of
// its records. So the next process that uses it must not believe what its last user left
// there.
func (r *Revoker) leaveRedis(ctx context.Context) error {
	if r.keeper != nil || !r.former || !r.before.Clean {
		return nil
	}
	left := r.before
	left.Clean = false
	return r.persistEpoch(ctx, left)
}

// awaitsOrder reports whether Redis must be put in order before anything is confirmed,
// because filters that are not remembered may read it. A process without Redis has no way
// to void what they were told; they hear of it when they link. mu is held.
func (r *Revoker) awaitsOrder() bool { return r.strangers && r.keeper != nil }

// forgets reports whether filters that are not remembered may still read Redis.
func (r *Revoker) forgets() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.strangers
}

// noteNoRedis stores that no known filter believes any Redis, so that the next process does
// not wait for them.
func (r *Revoker) noteNoRedis(ctx context.Context) error {
	r.mu.Lock()
	told, forgets := r.told(), r.strangers
	r.mu.Unlock()
	if news := r.former || forgets != r.before.Forgotten; !told || !news {
		return nil
	}
	return r.persistEpoch(ctx, Epoch{Log: r.history.id, Told: true, Within: true, Clean: true, Forgotten: forgets})
}

// forgetStrangers does what forgetOld does, for filters that are not remembered. mu is
// held.
func (r *Revoker) forgetStrangers() (some bool) {
	some = r.strangers && time.Since(r.started) >= contract.RememberFilter
	if some {
		r.strangers = false
		r.advance(nil) // a publication may have waited only for them
	}
	return some
}

// handOver stores when filters were last seen, then the time, then that no write is in
// progress any more. The order matters: if the time were stored but not when filters were
// last seen, filters would look older than they are, and would be forgotten while they
// still believe Redis.
func (r *Revoker) handOver(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err() // Close has returned
	}
	err, k := r.persistKnown(ctx, true), r.keeper
	if err == nil {
		err = r.noteTimes(ctx)
	}
	if ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
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
