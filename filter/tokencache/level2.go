package tokencache

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn"
)

const (
	// l2Timeout is the default of [Options.RedisTimeout].
	l2Timeout = 100 * time.Millisecond
	// l2Patience is how many times as long a read may take when there is no link:
	// nobody else can be asked then, and whoever gives up has to refuse. A machine
	// with too much to do keeps good reads waiting for longer than l2Timeout. Two
	// reads still fit into a round.
	l2Patience = 4
)

// store reads single keys from Redis. Absent values are nil. Whoever is alone, with no
// control plane to tell it, gets an error if a server has taken over the data of another
// one since its connections were opened.
type store interface {
	// record reads what stands under a token hash. Where one server holds everything it
	// leaves to floors to find out whether that is still the one.
	record(ctx context.Context, of *contract.Scopes, hash contract.Hash, alone bool) (stored, error)
	// floors reads those of the credential and the consumer of a record. With an error no
	// record holds that was read before either.
	floors(ctx context.Context, r *contract.Record, alone bool) (ofCredential, ofConsumer []byte, err error)
	// byNodes reports whether each server that is read goes through the visit in the
	// context, see [watchNode].
	byNodes() bool
	close() error
}

// stored is what stands under a token hash.
type stored struct {
	// entries are those of the members, in their order.
	entries [][]byte
	// clock and members are that of Redis and those that it knows of the scope.
	clock, members []byte
}

// What is logged of a Redis, or of one server of a cluster.
const (
	saysSilent  = "redis does not answer and is left alone for a while"
	saysStrange = "redis answers, and is not read: the control plane vouches for another server, or for what this one held before"
	saysBack    = "redis is read again"
)

// level2 is Redis behind its breaker.
type level2 struct {
	store store
	// servers are those that its connections may lead to; none means any.
	servers []string
	breaker breaker
	// nodes are the breakers of the servers of a cluster, and stand for the one above.
	nodes *nodes
	// stranger says that the latest failure was no silence: another server has answered
	// than those. told says that this was logged since the breaker opened.
	stranger, told atomic.Bool
}

func (l *level2) close(log *slog.Logger) {
	if err := l.store.close(); err != nil {
		log.Warn("closing redis connections failed", "error", err)
	}
}

// l2Outcome is what a look-up in Redis came to. Of what the members of a group have without a
// record that counts, the last in this order counts.
type l2Outcome uint8

const (
	// l2Failed: Redis could not be asked, or nobody vouches for it.
	l2Failed l2Outcome = iota
	// l2Found: a record that passed every rule but that of the floors in memory.
	l2Found
	// l2Absent: no record, or one that a floor voids or that no known key signed.
	l2Absent
	// l2Revoked: a tombstone.
	l2Revoked
	// l2Untrusted: something else about what is there forbids its use, or another server
	// has answered than those that are vouched for, so it says nothing about the token.
	l2Untrusted
)

// readL2 looks a token up in Redis by the rules of "Trust" in
// docs/adr/0003-freshness.md, on behalf of a look-up that began at a standing.
func (c *Cache) readL2(ctx context.Context, cfg *config, began *standing, hash contract.Hash, by pauses) (*contract.Record, l2Outcome) {
	l2 := cfg.l2
	if l2 == nil {
		return nil, l2Failed
	}
	if !cfg.static() && !c.trusted(cfg, began) {
		c.counters.l2Skipped.Add(1)
		return nil, l2Failed
	}
	if l2.nodes != nil {
		return c.readNodes(ctx, cfg, began, hash, by)
	}
	allow := l2.breaker.allow
	if c.onlyRedis(cfg, &hash) {
		allow = func() (permit, bool) {
			return l2.breaker.allowAfterProbe(func(probe <-chan struct{}) bool { return by.pause(ctx, probe) })
		}
	}
	leave, ok := allow()
	if !ok {
		c.counters.l2Skipped.Add(1)
		return nil, l2.failure()
	}
	reported := false
	defer func() {
		if !reported { // the store panicked: the probe must not stay taken
			l2.breaker.cancel(leave)
		}
	}()
	r, outcome, err := c.queryL2(ctx, cfg, began, hash)
	reported = true
	if errors.Is(err, errUnusable) {
		outcome, err = l2Untrusted, nil
	}
	if err != nil {
		return nil, c.countL2Failure(ctx, l2, leave, err)
	}
	if l2.breaker.report(leave, true) {
		l2.told.Store(false)
		c.log.Info(saysBack)
	}
	c.countL2(outcome)
	return r, outcome
}

// countL2 counts what a look-up came to that was answered.
func (c *Cache) countL2(outcome l2Outcome) {
	switch outcome {
	case l2Found:
		c.counters.l2Hits.Add(1)
	case l2Untrusted:
		c.counters.l2Untrusted.Add(1)
	case l2Absent, l2Revoked, l2Failed:
	}
}

// isOpen says whether Redis, or a server of a cluster, is left alone.
func (l *level2) isOpen() bool {
	if l.nodes != nil {
		return l.nodes.isOpen()
	}
	return l.breaker.isOpen()
}

// failure is what a look-up came to that failed, or that was not made after failures.
func (l *level2) failure() l2Outcome {
	if l.stranger.Load() {
		return l2Untrusted
	}
	return l2Failed
}

func (c *Cache) countL2Failure(ctx context.Context, l2 *level2, leave permit, err error) l2Outcome {
	if ctx.Err() != nil { // the caller's time was up or the cache closes
		l2.breaker.cancel(leave)
		return l2Failed
	}
	stranger := errors.Is(err, redisconn.ErrNotVouched)
	l2.stranger.Store(stranger)
	opened := l2.breaker.report(leave, false)
	if !stranger {
		c.counters.l2Errors.Add(1)
		if opened {
			c.log.Warn(saysSilent, "error", err)
		}
		return l2Failed
	}
	c.counters.l2Untrusted.Add(1)
	if l2.breaker.isOpen() && !l2.told.Swap(true) {
		c.log.Warn(saysStrange, "error", err)
	}
	return l2Untrusted
}

// patience is how long one read of Redis may take.
func (c *Cache) patience() time.Duration {
	if c.session.Load() == nil {
		return l2Patience * c.opts.RedisTimeout
	}
	return c.opts.RedisTimeout
}

// onlyRedis reports whether nothing but Redis can answer a look-up: there is no link, and no grace
// in which L1 answers.
func (c *Cache) onlyRedis(cfg *config, hash *contract.Hash) bool {
	if c.session.Load() != nil {
		return false
	}
	now := c.clock.Now()
	if !c.inGrace(cfg, now) {
		return true
	}
	_, known := c.readL1(hash, now)
	return !known
}

// alone reports whether a revocation may be confirmed now without this filter.
func (c *Cache) alone() bool { return !c.leased(c.clock.Now()) }

// queryL2 asks Redis. What cannot be used because something was written between two reads is read
// once more if nobody else can answer.
func (c *Cache) queryL2(ctx context.Context, cfg *config, began *standing, hash contract.Hash) (*contract.Record, l2Outcome, error) {
	r, outcome, err := c.queryOnce(ctx, cfg, began, hash)
	if outcome == l2Untrusted && err == nil && c.session.Load() == nil {
		return c.queryOnce(ctx, cfg, began, hash)
	}
	return r, outcome, err
}

func (c *Cache) queryOnce(ctx context.Context, cfg *config, began *standing, hash contract.Hash) (*contract.Record, l2Outcome, error) {
	of := cfg.scopes(began)
	first, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	raw, err := cfg.l2.store.record(first, of, hash, c.alone())
	if err != nil {
		return nil, l2Absent, err
	}
	r, outcome := c.choose(cfg, began, of, hash, &raw)
	if outcome != l2Found {
		return nil, outcome, nil
	}
	second, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	if outcome, err := c.readFloors(second, cfg, r); outcome != l2Found {
		return nil, outcome, err
	}
	// Trust may have been taken back during the second read, and the memory may
	// have begun anew.
	if now := c.standing.Load(); now.generation != began.generation || !c.usable(cfg, now, r, raw.clock) {
		return nil, l2Untrusted, nil
	}
	return r, l2Found, nil
}

// choose returns the one record that counts. Those of members that another one had the value
// before say so, and are none; what others have revoked says nothing about it. Without one,
// what cannot be judged here may count by now, whatever else was revoked: only the control
// plane knows when somebody gives way.
func (c *Cache) choose(cfg *config, began *standing, of *contract.Scopes, hash contract.Hash, raw *stored) (chosen *contract.Record, outcome l2Outcome) {
	outcome = l2Absent
	for i, plane := range of.Members {
		if raw.entries[i] == nil {
			continue
		}
		r, is := c.judge(cfg, began, of, plane, hash, raw.entries[i], raw)
		switch {
		case is == l2Found && chosen != nil: // one of them is out of date
			return nil, l2Untrusted
		case is == l2Found:
			chosen, outcome = r, l2Found
		case chosen == nil:
			outcome = max(outcome, is)
		}
	}
	return chosen, outcome
}

// judge looks at what stands under a token hash of one member.
func (c *Cache) judge(cfg *config, began *standing, of *contract.Scopes, plane string, hash contract.Hash, entry []byte, raw *stored) (*contract.Record, l2Outcome) {
	is, err := contract.ParseEntry(entry)
	if err != nil {
		c.log.Warn("redis holds an entry that cannot be decoded", "error", err)
		return nil, l2Untrusted
	}
	r := is.Record
	switch {
	case r == nil:
		return nil, l2Revoked
	case !c.usable(cfg, began, r, raw.clock):
		return nil, l2Untrusted
	case r.Plane != plane || cfg.verifier != nil && !cfg.verifier.genuine(hash, r, entry):
		c.counters.l2Foreign.Add(1)
		return nil, l2Absent
	case !cfg.static():
		return r, isMember(began, of, r, raw.members)
	case !serves(of.Has, r):
		return nil, l2Absent
	case of.IsGroup() && r.Own:
		return nil, l2Untrusted
	}
	return r, l2Found
}

// isMember says whether the control plane of a record is still one of those that the gateway
// consists of, and that of its service: a filter that is out of reach was told too many, if
// one has left since. Without members of the epoch that is believed nobody knows. Where only
// the service is of another, its holder has the value still, which is no answer for others who
// hold it. Nor does a group use a record of which another member had the value first, or what
// upstreams would be told, or may have had when it was written.
func isMember(began *standing, of *contract.Scopes, r *contract.Record, raw []byte) l2Outcome {
	m, err := contract.ParseMembers(raw)
	has := func(plane string) bool { return of.Has(plane) && slices.Contains(m.Members, plane) }
	switch {
	case raw == nil, err != nil, m.Epoch != began.trust.Epoch:
		return l2Untrusted
	case !has(r.Plane):
		return l2Absent
	case !serves(has, r):
		return l2Untrusted
	case of.IsGroup() && (r.Own || r.Revision < max(of.Since, m.Since)):
		return l2Untrusted
	}
	return l2Found
}

// usable applies rules 1 to 4 but for the signature. In a static configuration
// whoever writes Redis is the authority, and a record may lack its end.
func (c *Cache) usable(cfg *config, st *standing, r *contract.Record, rawClock []byte) bool {
	if cfg.static() {
		return r.Until == 0 || r.Until > c.clock.Now().millis()
	}
	return c.trusted(cfg, st) && c.believes(st, r, rawClock)
}

// readFloors applies rule 5. They are read after the record: a revocation that
// was there before the record was read is seen.
func (c *Cache) readFloors(ctx context.Context, cfg *config, r *contract.Record) (l2Outcome, error) {
	ofCredential, ofConsumer, err := cfg.l2.store.floors(ctx, r, c.alone())
	if err != nil {
		return l2Failed, err
	}
	outcome := underFloor(r, ofCredential, !cfg.static())
	if r.Consumer != nil && outcome == l2Found {
		outcome = underFloor(r, ofConsumer, !cfg.static())
	}
	return outcome, nil
}

// underFloor compares a record with the floor of one of its owners. Where the control
// plane vouches for what is read, there must be one, of the epoch of the record.
func underFloor(r *contract.Record, floor []byte, vouched bool) l2Outcome {
	if floor == nil {
		if vouched {
			return l2Untrusted // it was evicted, and may have been above the record
		}
		return l2Found
	}
	at, err := contract.ParseFloor(floor)
	switch {
	case err != nil:
		return l2Absent
	case vouched && at.Epoch != r.Epoch:
		return l2Untrusted // it came late, and may have replaced one above the record
	case at.Revision > r.Revision:
		return l2Absent
	}
	return l2Found
}
