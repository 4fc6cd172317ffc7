package tokencache

import (
	"context"
	"log/slog"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// l2Timeout is the default of [Options.RedisTimeout].
const l2Timeout = 100 * time.Millisecond

// store reads single keys from Redis. Absent values are nil.
type store interface {
	// record reads what stands under a token hash, and the clock.
	record(ctx context.Context, hash contract.Hash) (entry, clock []byte, err error)
	// tombstones reads the revocations of a credential and, unless empty, of a
	// consumer.
	tombstones(ctx context.Context, credential, consumer string) (ofCredential, ofConsumer []byte, err error)
	close() error
}

// level2 is Redis behind its breaker.
type level2 struct {
	store   store
	timeout time.Duration
	breaker breaker
}

func (l *level2) close(log *slog.Logger) {
	if err := l.store.close(); err != nil {
		log.Warn("closing redis connections failed", "error", err)
	}
}

// l2Outcome is what a look-up in Redis came to.
type l2Outcome uint8

const (
	// l2Failed: Redis could not be asked.
	l2Failed l2Outcome = iota
	// l2Found: a record that passed the clock, the epoch and all tombstones.
	l2Found
	// l2Absent: no record, or one that a tombstone voids or that no known key signed.
	l2Absent
	// l2Untrusted: the clock or epoch forbids the use of what is there, or it
	// cannot be decoded.
	l2Untrusted
)

// readL2 looks a token up in Redis by the rules of "Reading L2".
func (c *Cache) readL2(ctx context.Context, cfg *config, hash contract.Hash) (*contract.Record, l2Outcome) {
	l2 := cfg.l2
	if l2 == nil {
		return nil, l2Failed
	}
	began, ok := l2.breaker.allow()
	if !ok {
		c.counters.l2Skipped.Add(1)
		return nil, l2Failed
	}
	reported := false
	defer func() {
		if !reported { // the store panicked: the probe must not stay taken
			l2.breaker.cancel()
		}
	}()
	r, outcome, err := c.queryL2(ctx, cfg, hash)
	reported = true
	if err != nil {
		c.countL2Failure(ctx, l2, began, err)
		return nil, l2Failed
	}
	if l2.breaker.report(began, true) {
		c.log.Info("redis answers again")
	}
	switch outcome {
	case l2Found:
		c.counters.l2Hits.Add(1)
	case l2Untrusted:
		c.counters.l2Untrusted.Add(1)
	case l2Absent, l2Failed:
	}
	return r, outcome
}

func (c *Cache) countL2Failure(ctx context.Context, l2 *level2, began time.Duration, err error) {
	if ctx.Err() != nil { // the caller's time was up or the cache closes
		l2.breaker.cancel()
		return
	}
	c.counters.l2Errors.Add(1)
	if l2.breaker.report(began, false) {
		c.log.Warn("redis does not answer and is left alone for a while", "error", err)
	}
}

func (c *Cache) queryL2(ctx context.Context, cfg *config, hash contract.Hash) (*contract.Record, l2Outcome, error) {
	first, cancel := context.WithTimeout(ctx, cfg.l2.timeout)
	defer cancel()
	raw, rawClock, err := cfg.l2.store.record(first, hash)
	if err != nil {
		return nil, l2Failed, err
	}
	if raw == nil {
		return nil, l2Absent, nil
	}
	found, err := contract.ParseEntry(raw)
	switch {
	case err != nil:
		c.log.Warn("redis holds an entry that cannot be decoded", "error", err)
		return nil, l2Untrusted, nil
	case found.Record == nil:
		return nil, l2Absent, nil
	case !c.trusts(cfg, found.Record, rawClock):
		return nil, l2Untrusted, nil
	case cfg.verifier != nil && !cfg.verifier.genuine(hash, raw):
		c.counters.l2Foreign.Add(1)
		return nil, l2Absent, nil
	}
	r := found.Record
	consumer := ""
	if r.Consumer != nil {
		consumer = r.Consumer.ID
	}
	second, cancel := context.WithTimeout(ctx, cfg.l2.timeout)
	defer cancel()
	ofCredential, ofConsumer, err := cfg.l2.store.tombstones(second, r.Credential.ID, consumer)
	if err != nil {
		return nil, l2Failed, err
	}
	if revokes(ofCredential, r.Revision) || revokes(ofConsumer, r.Revision) {
		return nil, l2Absent, nil
	}
	// Invalidations and epochs may have arrived during the second read.
	if !c.trusts(cfg, r, rawClock) {
		return nil, l2Untrusted, nil
	}
	return r, l2Found, nil
}

// trusts applies rule 1: this Redis has lost no write that the filter knows of,
// and the record was written under the newest epoch.
func (c *Cache) trusts(cfg *config, r *contract.Record, rawClock []byte) bool {
	if cfg.static() {
		return true
	}
	if rawClock == nil {
		return false
	}
	clock, err := contract.ParseClock(rawClock)
	if err != nil {
		return false
	}
	return clock.Revision >= c.applied.Load() && r.Epoch == max(clock.Epoch, c.announced.Load())
}

// revokes says whether a tombstone is newer than a record. One that cannot be
// decoded revokes.
func revokes(tombstone []byte, revision uint64) bool {
	if tombstone == nil {
		return false
	}
	at, err := contract.ParseTombstone(tombstone)
	return err != nil || at > revision
}
