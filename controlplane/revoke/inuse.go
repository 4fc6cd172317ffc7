package revoke

import (
	"context"
	"slices"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/alarm"
)

const (
	// inUsePause is the pause after each batch of records that filters hold. It bounds the
	// load on Redis and on the store.
	inUsePause = 16 * time.Millisecond
	// inUseRetry is the pause before another attempt if Redis, although in order, refused a
	// write or the store failed. No event announces the end of such a failure.
	inUseRetry = time.Second
)

// inUseBatch holds the tokens in one filter's memory, or tokens whose records are owed.
// done is closed when the batch was processed. left are the records that Redis may still
// lack, and failed those that the store failed to return.
type inUseBatch struct {
	records, left, failed []refill
	done                  chan struct{}
}

// fillFor calls fill for the tokens that a filter holds. The filter reports them only once.
// If they were acknowledged but not written, they would be missing as soon as Redis is the
// only source. ctx is the context of the link: if it ends, the filter reports them again on
// its next link.
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

// fill returns when Redis holds the existing records of some tokens. It returns false if
// ctx ends first. Records that the store fails to return are owed and not waited for,
// because that failure may be permanent.
func (k *keeper) fill(ctx context.Context, left []refill) bool {
	for len(left) > 0 {
		b := &inUseBatch{records: left, done: make(chan struct{})}
		if !k.awaitOrder(ctx) || !k.fillOnce(ctx, b) {
			return false
		}
		left = b.left
		if len(left)+len(b.failed) > 0 && k.isReady() && alarm.Rest(ctx, inUseRetry) != nil {
			return false
		}
		k.owe(b.failed...)
	}
	return true
}

// fillOnce tries to write a batch. Batches of all links are processed one at a time.
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

// refillInUse writes the records that filters hold, slowly, until the Revoker is closed.
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
				if len(left) > 0 { // the rest would most likely fail as well
					b.left = slices.Concat(left, b.records[n+len(part):])
				}
				if alarm.Rest(k.r.ctx, inUsePause) != nil {
					return
				}
			}
			close(b.done)
		}
	}
}
