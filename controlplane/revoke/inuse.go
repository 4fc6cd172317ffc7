package revoke

import (
	"context"
	"slices"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

const (
	// inUsePause is the pause after each batch of records that filters hold: it bounds
	// how much of Redis and of the store that takes.
	inUsePause = 16 * time.Millisecond
	// inUseRetry is the pause before what a Redis in order refused, or the store did
	// not give, is tried again: nothing says when that is over.
	inUseRetry = time.Second
)

// inUseBatch is what one filter holds in its memory, or what was owed. done is closed
// when it was dealt with; left is what Redis may lack then, and failed what the store
// failed to give.
type inUseBatch struct {
	records, left, failed []refill
	done                  chan struct{}
}

// fillFor is fill for what a filter holds. It says that once, and what was answered and
// not written would be missed as soon as only Redis is left. If ctx ends, which is that
// of its link, the filter says it again on the next one.
func (k *keeper) fillFor(ctx context.Context, scope string, tokens []contract.Hash) bool {
	if k == nil {
		return true
	}
	all := make([]refill, len(tokens))
	for i := range tokens {
		all[i] = refill{scope: scope, token: tokens[i]}
	}
	return k.fill(ctx, all)
}

// fill returns when Redis holds what there is of some tokens; false if ctx ended
// before. What the store failed to give, which may be for ever, is owed: nothing else
// waits for it.
func (k *keeper) fill(ctx context.Context, left []refill) bool {
	for len(left) > 0 {
		b := &inUseBatch{records: left, done: make(chan struct{})}
		if !k.awaitOrder(ctx) || !k.fillOnce(ctx, b) {
			return false
		}
		left = b.left
		if len(left)+len(b.failed) > 0 && k.isReady() && !pause(ctx, inUseRetry) {
			return false
		}
		k.owe(b.failed...)
	}
	return true
}

// fillOnce tries to write a batch, in turn with those of other links.
func (k *keeper) fillOnce(ctx context.Context, b *inUseBatch) bool {
	select {
	case k.inUse <- b:
	case <-ctx.Done():
		return false
	}
	select {
	case <-b.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// pause is false if ctx ended before it was over.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// refillInUse writes what filters hold, slowly, until the Revoker is closed.
func (k *keeper) refillInUse() {
	for {
		select {
		case <-k.r.ctx.Done():
			return
		case b := <-k.inUse:
			for n := 0; n < len(b.records) && len(b.left) == 0; n += refillBatch {
				part := b.records[n:min(n+refillBatch, len(b.records))]
				left, failed := k.refillBatch(part)
				b.failed = append(b.failed, failed...)
				if len(left) > 0 { // it would go no better with the rest
					b.left = slices.Concat(left, b.records[n+len(part):])
				}
				if !pause(k.r.ctx, inUsePause) {
					return
				}
			}
			close(b.done)
		}
	}
}
