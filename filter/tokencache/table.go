package tokencache

import (
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

const (
	// shardCount is a power of two, so that a byte of the hash selects a shard.
	shardCount = 256
	// negativeShare is the part of the cache's bytes for unknown tokens.
	negativeShare = 32
	maxNegative   = 8 << 20
)

// table is L1: records and unknown tokens of this process under their hashes,
// and the floors. It knows nothing of leases; its callers do.
type table struct {
	floors *floors
	clock  Clock
	// witness is told of whatever makes a record void. It may be nil.
	witness *witness
	// generation counts how often the table began anew.
	generation atomic.Uint64
	shards     [shardCount]shard
}

func newTable(maxBytes int64, clock Clock) *table {
	t := &table{floors: newFloors(maxBytes), clock: clock}
	t.resize(maxBytes)
	return t
}

// restart empties the table and the floors, and returns the new generation. A
// record that only a floor voids must not be met without it, so the floors go
// last; whoever has found a record looks at the floors inside its shard's lock.
func (t *table) restart() uint64 {
	generation := t.outdate()
	t.floors.clear()
	return generation
}

// outdate empties the table but for the floors, and returns the new generation. Of owners of
// control planes that come with it, an item that named none may be about any. Whoever
// puts something in looks at the generation inside its shard's lock: it finds the new one,
// or what it puts there is emptied.
func (t *table) outdate() uint64 {
	raise(&t.floors.global, t.floors.nameless.Load())
	generation := t.generation.Add(1)
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.clear()
		s.mu.Unlock()
	}
	t.witness.outdated()
	return generation
}

// inUse returns hashes of at most limit records whose tokens are good, as far as
// is known, those that were used lately first.
func (t *table) inUse(limit int, now Instant) []contract.Hash {
	var out []contract.Hash
	for i := range t.shards {
		out = t.shards[i].inUse(out, limit/shardCount, func(e *entry) bool {
			return t.floors.admitsOwners(e.revision, e.credential, e.consumer) && !over(e.end, now)
		})
	}
	return out
}

// resize empties the table and sets its bound. Floors stay: they are what has
// been acknowledged.
func (t *table) resize(maxBytes int64) {
	negatives := min(maxBytes/negativeShare, maxNegative)
	floorBytes := t.floors.bytes()
	share := int((maxBytes - negatives - floorBytes) / shardCount)
	sets := floorPow2(max(1, int(negatives)/shardCount/negativeSetBytes))
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.setLimit(share)
		s.negatives = make([]negative, sets*negativeWays)
		s.mu.Unlock()
	}
	t.witness.outdated()
}

func (t *table) shard(hash *contract.Hash) *shard { return &t.shards[hash[0]] }

// lookup is peek with its outcome counted.
func (t *table) lookup(hash *contract.Hash, dst []byte, now Instant) (int, contract.Answer) {
	n, answer := t.peek(hash, dst, now)
	s := t.shard(hash)
	switch answer {
	case contract.Found:
		s.hits.Add(1)
	case contract.Unknown, contract.Expired, contract.Revoked:
		s.negativeHits.Add(1)
	case contract.Miss, contract.Unavailable:
		s.misses.Add(1)
	}
	return n, answer
}

// peek copies a usable record to dst. What a floor voids is a Miss, also where
// another token has raised it. An answer that rejects means that the token
// is remembered so, or that its record, which is copied too, has expired: both are
// as exact as the record, for whoever changes the expiry invalidates the token. A
// record that is too old says nothing about its token and is a Miss.
func (t *table) peek(hash *contract.Hash, dst []byte, now Instant) (int, contract.Answer) {
	s := t.shard(hash)
	s.mu.RLock()
	slot, pos := s.find(hash)
	if slot < 0 {
		answer := s.unknown(hash, now.Mono, t.floors.global.Load())
		s.mu.RUnlock()
		return 0, answer
	}
	n, answer := 0, contract.Miss
	if e := s.header(pos); t.floors.admits(hash, e.revision, e.credential, e.consumer) {
		switch packed := s.packed(pos); {
		case over(e.end, now):
			if e.end > 0 {
				answer = contract.Expired
				if len(packed) <= len(dst) {
					n = copy(dst, packed)
				}
			}
		case len(packed) <= len(dst):
			s.touch(slot)
			n, answer = copy(dst, packed), contract.Found
		}
	}
	s.mu.RUnlock()
	return n, answer
}

// over says whether the end of a record has come. A positive end is that of the
// token, a negative one is when the record is too old; 0 is none.
func over(end int64, now Instant) bool {
	if end < 0 {
		end = -end
	}
	return end != 0 && now.millis() >= end
}

// endOf is which of the two comes first.
func endOf(expires, until int64) int64 {
	if until == 0 || (expires != 0 && expires <= until) {
		return expires
	}
	return -until
}

// admit checks a record against the floors and puts it into the table in one
// critical section, so that an invalidation is either seen here or finds the
// record there. The look-up that found it began under a generation; until is when
// the record is too old. False means that the record must not be used.
func (t *table) admit(generation uint64, hash *contract.Hash, r *contract.Record, until int64, packed []byte, store bool) bool {
	e := entry{
		hash:       *hash,
		credential: t.floors.ownerOf(r.Plane, contract.SubjectCredential, r.Credential.ID),
		revision:   r.Revision,
		end:        endOf(r.Expires, until),
	}
	if r.Consumer != nil {
		e.consumer = t.floors.ownerOf(r.Plane, contract.SubjectConsumer, r.Consumer.ID)
	}
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	// The generation is read after the floors: if it is still that one, restart
	// had not begun to empty them.
	if !t.floors.admits(hash, e.revision, e.credential, e.consumer) || t.generation.Load() != generation {
		return false
	}
	if !store {
		return true
	}
	if slot, pos := s.find(hash); slot >= 0 {
		if s.header(pos).revision > e.revision {
			return true // what is there is newer and as usable
		}
		s.remove(slot)
	}
	s.forgetUnknown(hash)
	evicted := s.put(&e, packed, t.void)
	s.evictions.Add(uint64(evicted)) //nolint:gosec // a count
	return true
}

// void says that the token of a record is revoked or has expired, so that the record
// deserves no second chance when room is needed.
func (t *table) void(e *entry) bool {
	return !t.floors.admitsOwners(e.revision, e.credential, e.consumer) ||
		over(e.end, t.clock.Now())
}

// remember stores that the token was not good at revision, and why, until the
// monotonic time until, unless an invalidation of that token is newer, or the table
// began anew since the look-up did. It returns what it knows better than an
// authority that has forgotten the token: that its record, which is here, has
// expired, or was revoked with its owner.
func (t *table) remember(generation uint64, hash *contract.Hash, why contract.Answer, revision uint64, until time.Duration) contract.Answer {
	s := t.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	slot, pos := s.find(hash)
	if slot >= 0 && why == contract.Unknown {
		switch e := s.header(pos); {
		case e.end > 0 && over(e.end, t.clock.Now()):
			why = contract.Expired
		case !t.floors.admitsOwners(e.revision, e.credential, e.consumer):
			why = contract.Revoked
		}
	}
	if !t.floors.admits(hash, revision, 0, 0) || t.generation.Load() != generation {
		return why
	}
	if slot >= 0 {
		if s.header(pos).revision > revision {
			return why
		}
		s.remove(slot)
	}
	s.setUnknown(hash, why, revision, until, t.clock.Now().Mono)
	return why
}

// invalidate applies one invalidation; when it returns, no lookup finds what it
// voids. What names no control plane concerns records that name none, and these are
// concerned by every other as well.
func (t *table) invalidate(it *contract.Invalidation) {
	switch it.Subject {
	case contract.SubjectCredential, contract.SubjectConsumer:
		t.raiseOwner("", it)
		if it.Plane != "" {
			t.raiseOwner(it.Plane, it)
		}
	case contract.SubjectToken:
		s := t.shard(&it.Token)
		s.mu.Lock()
		defer s.mu.Unlock()
		t.floors.raiseToken(&it.Token, it.Revision)
		if slot, pos := s.find(&it.Token); slot >= 0 && s.header(pos).revision < it.Revision {
			s.remove(slot)
		}
		s.forgetUnknownBelow(&it.Token, it.Revision)
		t.witness.invalidated(slotOf(&it.Token))
	}
}

// raiseOwner is invalidate for an owner in one control plane.
func (t *table) raiseOwner(plane string, it *contract.Invalidation) {
	o := t.floors.ownerOf(plane, it.Subject, it.ID)
	t.floors.raiseOwner(o, it.Revision)
	t.witness.invalidated(o.slot())
}

// invalidateAmong is invalidate where some control planes may have what an item means that
// names none. Whatever is accepted from others later is void below it.
func (t *table) invalidateAmong(of *contract.Scopes, it *contract.Invalidation) {
	t.invalidate(it)
	if it.Plane != "" || it.Subject == contract.SubjectToken {
		return
	}
	raise(&t.floors.nameless, it.Revision)
	if of == nil {
		return
	}
	for _, plane := range of.Members {
		t.raiseOwner(plane, it)
	}
}

// usable is peek for the header of a record.
func (t *table) usable(hash *contract.Hash, now Instant) (e entry, ok bool) {
	s := t.shard(hash)
	s.mu.RLock()
	defer s.mu.RUnlock()
	slot, pos := s.find(hash)
	if slot < 0 {
		return e, false
	}
	e = s.header(pos)
	return e, t.floors.admits(hash, e.revision, e.credential, e.consumer) && !over(e.end, now)
}
