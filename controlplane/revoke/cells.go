package revoke

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// what tells what a key holds.
type what uint8

const (
	isTombstone what = iota
	isFloor
	isRecord
	isMembers
)

// cell is one key to write and its value.
type cell struct {
	is    what
	key   string
	value []byte
	// expires is when the key may be removed, in milliseconds of Unix time; 0 is never.
	expires int64
	// of is what it says of a scope, of isMembers.
	of *contract.Scopes
}

// guards reports whether a cell is a tombstone or a floor. A full cache evicts records
// first.
func (c *cell) guards() bool { return c.is != isRecord }

// storeTimeout bounds the time in which reads of the store for one batch may begin. Without
// these reads a floor might be lowered. So if they cannot begin in time, the batch is not
// written, and Redis is put in order again. A read that has begun is not cancelled and its
// result counts: reading again would take as long. The limit leaves a caller time for Redis
// and for connected filters.
const storeTimeout = 2 * time.Second

// batchTimeout bounds the writes of one batch to Redis, however many they are. Connected filters
// hear of the batch only afterwards, and callers have [patience].
const batchTimeout = 2 * time.Second

// publish writes a batch, and then the clock with the position that the batch will get. It
// reports whether Redis holds everything up to that position. The caller holds turn.
func (k *keeper) publish(entries []entry, at contract.Position) (written bool) {
	if k == nil {
		return true
	}
	if !k.isReady() {
		return false
	}
	cells, err := k.cellsOf(k.r.ctx, entries)
	ctx, cancel := context.WithTimeout(k.r.ctx, batchTimeout)
	defer cancel()
	if err == nil {
		err = k.writeAll(ctx, cells)
	}
	if err == nil {
		err = k.writeClock(ctx, at)
	}
	if err == nil && k.isReady() {
		return true
	}
	k.r.log.Warn("redis was not written", "error", err)
	k.fail()
	return false
}

// writeEntries does what publish does, without the clock. The keeper itself uses it.
func (k *keeper) writeEntries(ctx context.Context, entries []entry) error {
	cells, err := k.cellsOf(ctx, entries)
	if err != nil {
		return err
	}
	return k.writeAll(ctx, cells)
}

// writeAll writes any number of cells. Each pipeline has the time of one exchange, because many
// cells of a Redis that answers are no failure of it.
func (k *keeper) writeAll(ctx context.Context, cells []cell) error {
	for part := range slices.Chunk(cells, pipelineSize) {
		if err := k.writePart(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

func (k *keeper) writePart(ctx context.Context, part []cell) error {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	return k.write(ctx, part)
}

// cellSet is an ordered list of cells to write. Of several cells with one key the last one
// counts.
type cellSet struct {
	cells []cell
	at    map[string]int
}

func (s *cellSet) add(c cell) {
	if i, again := s.at[c.key]; again {
		s.cells[i] = c
		return
	}
	s.at[c.key] = len(s.cells)
	s.cells = append(s.cells, c)
}

// addRecord adds a record with its floors. It keeps a floor that is already there if it is
// higher.
func (s *cellSet) addRecord(own []cell) {
	for _, c := range own {
		if i, ok := s.at[c.key]; c.is == isFloor && ok && !newer(c.value, s.cells[i].value) {
			continue
		}
		s.add(c)
	}
}

// cellsOf returns the cells that entries write. An entry whose token still exists also
// writes the record of the token. This is safe because no other writer can write an older
// record: the caller holds turn, or Redis is not in order. Reads of the store have their
// own timeout, so that a slow store does not count as a failure of Redis.
func (k *keeper) cellsOf(ctx context.Context, entries []entry) ([]cell, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	now := k.r.o.Clock.Earliest()
	epoch := k.epoch()
	entries = slices.Clone(entries)
	floors, members, err := k.newest(ctx, entries)
	if err != nil {
		return nil, err
	}
	set := cellSet{at: make(map[string]int, len(entries)), cells: make([]cell, 0, len(entries))}
	var there []refill
	for i := range entries {
		e := &entries[i]
		if !e.live(now) {
			continue
		}
		c, some := k.cellOf(e, epoch, floors, members)
		if !some {
			continue
		}
		set.add(c)
		if e.again {
			there = append(there, refill{scope: e.scope, token: e.inv.Token})
		}
	}
	// If a record could not be read in time, only its tombstone is written. That is
	// correct, but the tombstone may replace a good record, so the record is written later.
	late, failed := k.readRecords(there, func(int) context.Context { return ctx }, func(_ refill, own []cell) { set.addRecord(own) })
	k.owe(slices.Concat(late, failed)...)
	return set.cells, nil
}

// cellOf is what an entry writes, if anything: what an older release has revoked is in no
// record that counts.
func (k *keeper) cellOf(e *entry, epoch contract.Epoch, floors map[string]uint64, members map[string]cell) (c cell, some bool) {
	if e.inv.Subject == subjectScope {
		return members[e.inv.ID], true
	}
	if e.scope == "" {
		return cell{}, false
	}
	if key, owner := e.floorKey(); owner {
		// Records that were written after the entry need the floor for longer than it.
		return cell{isFloor, key, contract.Floor{Revision: max(e.inv.Revision, floors[key]), Epoch: epoch}.Marshal(), k.r.lasting(0), nil}, true
	}
	return cell{isTombstone, contract.RedisRecordKey(e.scope, e.inv.Token), contract.MarshalTombstone(e.inv.Revision), e.expires, nil}, true
}

// newest reads how far the owners among entries are revoked in the store, which of
// the tokens are there again, and what scopes consist of. Publications come in another order than their commits: one
// that is late must not lower what a later commit has raised already, nor take away the
// record of a token that a later commit has made.
func (k *keeper) newest(ctx context.Context, entries []entry) (floors map[string]uint64, members map[string]cell, err error) {
	floors, members = map[string]uint64{}, map[string]cell{}
	return floors, members, k.r.o.Store.View(ctx, func(tx store.Reader) (err error) {
		for i := range entries {
			e := &entries[i]
			if e.inv.Subject == subjectScope {
				if members[e.inv.ID], err = k.membersCell(tx, e.inv.ID); err != nil {
					return err
				}
				continue
			}
			key, owner := e.floorKey()
			if !owner {
				if err := e.renew(tx); err != nil {
					return err
				}
				continue
			}
			row := credentialRow(e.scope, e.inv.ID)
			if e.inv.Subject == contract.SubjectConsumer {
				row = consumerRow(e.scope, e.inv.ID)
			}
			if floors[key], err = floorOf(tx, row); err != nil {
				return err
			}
		}
		return nil
	})
}

// renew copies from the stored tombstone what a later commit says about a token, except for
// the revision.
func (e *entry) renew(tx store.Reader) error {
	if e.again {
		return nil
	}
	row, err := tx.Get(tombstones, "", tokenRow(e.scope, hex.EncodeToString(e.inv.Token[:])))
	if err == nil {
		e.again = row.Spec.(*Tombstone).Again
		return nil
	}
	if fault.Is(err, fault.NotFound) || errors.Is(err, store.ErrUnreadable) { // it stays revoked
		return nil
	}
	return err
}

// floorKey returns the key of an owner's floor. owner is false if the entry is about a
// token.
func (e *entry) floorKey() (key string, owner bool) {
	switch e.inv.Subject {
	case contract.SubjectCredential:
		return contract.RedisCredentialKey(e.scope, e.inv.ID), true
	case contract.SubjectConsumer:
		return contract.RedisConsumerKey(e.scope, e.inv.ID), true
	case contract.SubjectToken:
	}
	return "", false
}

// newer reports whether floor a is above floor b.
func newer(a, b []byte) bool {
	x, _ := contract.ParseFloor(a) // both were encoded here
	y, _ := contract.ParseFloor(b)
	return x.Revision > y.Revision
}

// recordCells reads a token from the store and returns its record with the floors of its
// owners. It returns nothing if there is no such token. The floors are read after the
// record, so they are never too low for it. The caller makes sure that no revocation is
// written between this call and the writing of the cells.
func (k *keeper) recordCells(ctx context.Context, q refill) ([]cell, error) {
	if q.members {
		var c cell
		err := k.r.o.Store.View(ctx, func(tx store.Reader) (err error) {
			c, err = k.membersCell(tx, q.scope)
			return err
		})
		return []cell{c}, err
	}
	if own, floors, ok, err := k.made(ctx, q); ok || err != nil {
		return k.signed(q.token, own, floors, err)
	}
	rec, _, revision, err := k.r.o.Source.Record(ctx, q.scope, q.token)
	if _, is := scopes.ClashIn(err); is { // it has no part in this group, and trying again does not help
		return nil, nil
	}
	if err != nil || rec == nil {
		return nil, err
	}
	own := k.own(rec, revision)
	var floors []cell
	err = k.r.o.Store.View(ctx, func(tx store.Reader) (err error) {
		floors, err = k.floorCells(tx, q.scope, own)
		return err
	})
	return k.signed(q.token, own, floors, err)
}

// own returns a copy of a record that was read at a revision, for Redis.
func (k *keeper) own(rec *contract.Record, revision uint64) *contract.Record {
	own := *rec
	own.Revision, own.Until, own.Epoch = revision, k.until(), k.epoch()
	k.count(own.Until)
	return &own
}

// signed returns the cells of a record, nothing if there is none.
func (k *keeper) signed(token contract.Hash, own *contract.Record, floors []cell, err error) ([]cell, error) {
	if err != nil || own == nil {
		return nil, err
	}
	data, err := k.r.signer.sign(own, token)
	if err != nil {
		return nil, fmt.Errorf("sign record: %w: %w", store.ErrUnreadable, err) // the row holds values that do not fit into a record
	}
	expires := own.Until
	if own.Expires != 0 {
		expires = min(expires, own.Expires)
	}
	return append(floors, cell{isRecord, contract.RedisRecordKey(own.Plane, token), data, expires, nil}), nil
}

// floorCells reads the floors of the owners of a record, 0 if nothing was revoked
// that could still matter, and what the scope consists of that the record is for.
func (k *keeper) floorCells(tx store.Reader, scope string, rec *contract.Record) (out []cell, err error) {
	members, err := k.membersCell(tx, scope)
	if err != nil {
		return nil, err
	}
	credential, err := floorOf(tx, credentialRow(rec.Plane, rec.Credential.ID))
	if err != nil {
		return nil, err
	}
	out = append(out, members)
	// Every record that it guards has ended when it goes, and each record that
	// is written later renews it.
	expires := rec.Until + expiryMargin.Milliseconds()
	add := func(key string, revision uint64) {
		out = append(out, cell{isFloor, key, contract.Floor{Revision: revision, Epoch: rec.Epoch}.Marshal(), expires, nil})
	}
	add(contract.RedisCredentialKey(rec.Plane, rec.Credential.ID), credential)
	if rec.Consumer == nil {
		return out, nil
	}
	consumer, err := floorOf(tx, consumerRow(rec.Plane, rec.Consumer.ID))
	add(contract.RedisConsumerKey(rec.Plane, rec.Consumer.ID), consumer)
	return out, err
}

func floorOf(tx store.Reader, row string) (uint64, error) {
	res, err := readable(tx.Get(tombstones, "", row))
	switch {
	case err == nil:
		return res.Revision, nil
	case fault.Is(err, fault.NotFound):
		return 0, nil
	}
	return 0, err
}

// writeClock records in Redis that it holds everything up to a position. It checks the
// clock that it replaces. Without this check, a Redis that was emptied or went back a
// moment ago would look correct from then on.
func (k *keeper) writeClock(ctx context.Context, at contract.Position) error {
	k.mu.Lock()
	c := contract.Clock{Epoch: k.stored.Epoch, Log: k.r.history.id, Position: at, Revision: k.r.o.Store.Revision()}
	stood, may := k.clock[0], k.clock[1]
	k.clock[1] = c
	k.writes++
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	data, err := k.remote.setClock(ctx, c.Marshal())
	if err != nil {
		return fmt.Errorf("write the clock: %w", err)
	}
	before, err := contract.ParseClock(data)
	if err != nil {
		before = contract.Clock{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clock = [2]contract.Clock{c}
	k.writes++
	if before != stood && (before != may || may == contract.Clock{}) {
		k.doubt = "its clock had gone back, or was gone"
		return errClock
	}
	return nil
}
