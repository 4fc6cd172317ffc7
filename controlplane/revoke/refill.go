package revoke

import (
	"context"
	"fmt"
	"sync"

	"github.com/meshgate/meshgate/filter/contract"
)

// Refill puts the record of a token into Redis soon, so that the first use of a
// fresh token finds it. It never blocks: while Redis is slow or away the record
// is dropped, and filters ask the control plane.
func (r *Revoker) Refill(scope string, token contract.Hash) {
	if r.o.Redis == nil {
		return
	}
	if !r.redis.up.Load() {
		r.redis.dropped.Add(1)
		return
	}
	select {
	case r.redis.queue <- refill{scope, token}:
	default:
		r.redis.dropped.Add(1)
	}
}

// refill is one of the goroutines that write records.
func (g *guard) refill() {
	for {
		select {
		case <-g.r.ctx.Done():
			return
		case q := <-g.queue:
			if err := g.refillOne(q); err != nil {
				g.dropped.Add(1)
				g.r.log.Warn("record was not written to redis", "error", err)
			}
		}
	}
}

// refillOne reads the store and writes Redis inside the lock of the hash, so
// that a tombstone is either seen by the read or written over the record.
func (g *guard) refillOne(q refill) error {
	g.gate.RLock()
	defer g.gate.RUnlock()
	s := &g.stripes[q.token[0]]
	s.Lock()
	defer s.Unlock()
	if !g.up.Load() {
		return errDown
	}
	ctx, cancel := context.WithTimeout(g.r.ctx, redisTimeout)
	defer cancel()
	rec, revision, err := g.r.o.Source.Record(ctx, q.scope, q.token)
	if err != nil || rec == nil {
		return err
	}
	own := *rec
	own.Revision = revision
	g.r.mu.Lock()
	own.Epoch = g.r.epoch
	g.r.mu.Unlock()
	data, err := g.r.signer.sign(&own, q.token)
	if err != nil {
		return fmt.Errorf("sign record: %w", err)
	}
	pipe := g.r.o.Redis.Pipeline()
	g.set(ctx, pipe, contract.RedisRecordKey(q.token), data, own.Expires, false)
	if err := flush(g.r.ctx, pipe); err != nil {
		g.fail()
		return err
	}
	return nil
}

// jobs are publications that outlive their callers' patience.
type jobs struct {
	mu      sync.Mutex
	stopped bool
	running sync.WaitGroup
}

// start runs fn unless wait was called.
func (j *jobs) start(fn func()) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stopped {
		return false
	}
	j.running.Go(fn)
	return true
}

// wait refuses new jobs and returns when the running ones have ended or ctx has.
func (j *jobs) wait(ctx context.Context) {
	j.mu.Lock()
	j.stopped = true
	j.mu.Unlock()
	done := make(chan struct{})
	go func() { defer close(done); j.running.Wait() }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
