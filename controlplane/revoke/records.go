package revoke

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

const (
	refillQueue = 1024
	// maxOwed bounds the tokens that are remembered until their records can be written.
	maxOwed = 32 << 10
	// refillBatch bounds the records that are written at once, and so how long a revocation
	// waits for them.
	refillBatch = 64
	// refillReads bounds how long the records of a batch are read from the store. The first
	// record has storeTimeout, so that a very slow store still makes progress.
	refillReads = 500 * time.Millisecond
)

// refill is a token whose record Redis should hold.
type refill struct {
	scope string
	token contract.Hash
	// members says that it is no token: Redis should say what the scope consists of.
	members bool
	// done, if set, hears when it was dealt with.
	done chan<- struct{}
	// made, if set, is the row of the token as it was committed at a revision.
	made     *model.Resource
	revision uint64
}

func (q *refill) dealtWith() {
	if q.done != nil {
		q.done <- struct{}{}
	}
}

// Refill puts the record of a token into Redis soon. It never blocks. While Redis is slow
// or away, filters ask the control plane and the record is written later.
func (r *Revoker) Refill(scope string, token contract.Hash) {
	r.keeper.ask(refill{scope: scope, token: token})
}

// ask queues a refill that can be done at once. It reports whether it did.
func (k *keeper) ask(q refill) bool {
	if k == nil {
		return false
	}
	if k.isReady() {
		select {
		case k.queue <- q:
			return true
		default:
		}
	}
	k.owe(q)
	return false
}

// owe remembers refills that could not be done, up to maxOwed. A Redis that was away and
// has lost nothing is believed as before. Filters that answer from memory would not ask for
// these records again, so the records would be missing as soon as Redis is the only source.
func (k *keeper) owe(all ...refill) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, q := range all {
		q.done, q.made, q.revision = nil, nil, 0
		if _, again := k.owed[q]; !again && len(k.owed) >= maxOwed {
			for old := range k.owed {
				delete(k.owed, old)
				break
			}
			k.dropped++
		}
		k.owed[q] = struct{}{}
	}
	if len(k.owed) > 0 {
		select {
		case k.owing <- struct{}{}:
		default: // payOwed will look anyway
		}
	}
}

// takeOwed takes some of the owed refills.
func (k *keeper) takeOwed() (some []refill) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for q := range k.owed {
		if len(some) == contract.MaxInUse {
			break
		}
		some = append(some, q)
		delete(k.owed, q)
	}
	return some
}

// payOwed does the owed refills once Redis is in order, as slowly as those of records that
// filters hold, until the Revoker is closed.
func (k *keeper) payOwed() {
	for {
		select {
		case <-k.r.ctx.Done():
			return
		case <-k.owing:
		}
		for k.awaitOrder(k.r.ctx) {
			some := k.takeOwed()
			if len(some) == 0 || !k.fill(k.r.ctx, some) {
				break
			}
		}
	}
}

func (k *keeper) drop(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dropped += uint64(n) //nolint:gosec // a count
}

// refillNow queues the records of new tokens. The returned function waits for them, so that
// the first use of a token finds it in Redis, unless Redis is slow or away.
func (k *keeper) refillNow(made []minted) (wait func(context.Context)) {
	if len(made) == 0 {
		return func(context.Context) {}
	}
	done, asked := make(chan struct{}, len(made)), 0
	for _, m := range made {
		if k.ask(refill{scope: m.scope, token: m.hash, done: done, made: m.row, revision: m.revision}) {
			asked++
		}
	}
	return func(ctx context.Context) {
		if asked == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, redisTimeout)
		defer cancel()
		for range asked {
			select {
			case <-done:
			case <-ctx.Done():
				return
			case <-k.r.ctx.Done():
				return
			}
		}
	}
}

// refiller writes records until the Revoker is closed.
func (k *keeper) refiller() {
	for {
		select {
		case <-k.r.ctx.Done():
			return
		case first := <-k.queue:
			batch := []refill{first}
			for len(batch) < refillBatch && len(k.queue) > 0 {
				batch = append(batch, <-k.queue) // no other goroutine takes from it
			}
			left, failed := k.refillBatch(batch)
			k.owe(slices.Concat(left, failed)...)
		}
	}
}

// refillBatch reads the store, and writes Redis while turn is held. What was published since
// the reads began is not written over: a revocation is either seen by the read, or its keys
// are left alone, or it is written over the record. The store is read without turn, because
// no revocation may wait for a slow one. It returns the records that Redis may lack but that
// could be written later, and those that the store failed to return.
func (k *keeper) refillBatch(batch []refill) (left, failed []refill) {
	defer func() {
		for i := range batch {
			batch[i].dealtWith()
		}
	}()
	if !k.isReady() {
		return batch, nil
	}
	began := k.moment()
	read, left, failed := k.readBatch(batch)
	if len(read) == 0 || k.r.ctx.Err() != nil {
		return left, failed
	}
	k.r.turn.Lock()
	defer k.r.turn.Unlock()
	cells, outdated := k.current(read, began)
	if left = slices.Concat(outdated, left); len(cells) == 0 {
		return left, failed
	}
	// The write is not cancelled on an orderly end: a cancelled write might be carried out
	// later, and the next process would have to void everything.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.r.ctx), redisTimeout)
	defer cancel()
	err := k.write(ctx, cells)
	if err == nil {
		return left, failed
	}
	k.r.log.Warn("records were not written to redis", "error", err)
	if !errors.Is(err, errRefused) {
		k.fail()
	}
	return batch, nil
}

// readBatch calls readRecords for records that are written at once.
func (k *keeper) readBatch(batch []refill) (all []readCells, late, failed []refill) {
	first, cancel := context.WithTimeout(k.r.ctx, storeTimeout)
	defer cancel()
	others, cancel := context.WithTimeout(k.r.ctx, refillReads)
	defer cancel()
	within := func(i int) context.Context {
		if i == 0 {
			return first
		}
		return others
	}
	late, failed = k.readRecords(batch, within, func(q refill, own []cell) { all = append(all, readCells{q, own}) })
	return all, late, failed
}

// readRecords reads tokens from the store, each within its context, and passes the cells of
// each to take. It returns the refills that there was no time for, and those that the store
// failed to return. A read that ends after its deadline but succeeds counts. A record that
// cannot be made from its row is given up, because it could not be made the next time
// either.
func (k *keeper) readRecords(batch []refill, within func(int) context.Context, take func(refill, []cell)) (late, failed []refill) {
	var last error
	for i, q := range batch {
		ctx := within(i)
		own, err := k.recordCells(ctx, q)
		if err == nil {
			take(q, own)
			continue
		}
		last = err
		if ctx.Err() != nil {
			late = batch[i:]
			break
		}
		if errors.Is(err, store.ErrUnreadable) {
			k.drop(1)
		} else {
			failed = append(failed, q)
		}
	}
	if last != nil && k.r.ctx.Err() == nil {
		k.r.log.Warn("records could not be read", "late", len(late), "failed", len(failed), "error", last)
	}
	return late, failed
}
