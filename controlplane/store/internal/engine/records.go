package engine

import (
	"time"

	"github.com/meshgate/meshgate/controlplane/store"
)

// Records are the change records of a backend. Every error is unexpected and breaks the
// transaction.
type Records interface {
	// Kept returns the number of the newest record, 0 if there was never one.
	Kept() (uint64, error)
	// Keep stores a record with the next number.
	Keep(r store.ChangeRecord) error
	// Room returns the number of records of a budget, without counting them.
	Room(b store.Budget) (int, error)
	// Eldest returns number, time and revisions of the n oldest records of a budget, oldest
	// first.
	Eldest(b store.Budget, n int) ([]store.ChangeRecord, error)
	// Forget removes the records of a budget up to a number. The budget is then complete only
	// after the revision since.
	Forget(b store.Budget, number, since uint64) error
	// Since returns the revision of the last Forget of a budget.
	Since(b store.Budget) (uint64, error)
	// Select returns what [store.Reader.Records] does.
	Select(q store.RecordQuery) ([]store.ChangeRecord, error)
	// Tally returns what [store.Reader.CountRecords] does.
	Tally(q store.RecordQuery) (int, error)
}

// trimStep bounds the records that one transaction removes, in addition to as many as it
// adds. So a large number of records shrinks over time, and no transaction is long.
const trimStep = 64

// Record implements [store.Tx].
func (t *Tx) Record(r store.ChangeRecord) {
	if !t.ended {
		t.records = append(t.records, r)
	}
}

// keep stores the records of a transaction that ends with a revision, and removes old ones.
func (t *Tx) keep(revision uint64, limits store.Retention) error {
	if len(t.records) == 0 {
		return nil
	}
	newest, err := t.rows.Kept()
	if err != nil {
		return t.fail(err)
	}
	for _, r := range t.records {
		newest++
		r.Number, r.Revision, r.Previous, r.Time = newest, revision, t.rows.Revision(), instant(t.now)
		if err := t.rows.Keep(r); err != nil {
			return t.fail(err)
		}
	}
	for _, b := range store.Budgets() {
		if err := t.trim(b, limits.Or(store.DefaultRetention)); err != nil {
			return t.fail(err)
		}
	}
	return nil
}

// trim removes the oldest records of a budget that need not be kept. It stops at the first
// one that must be kept. So the remaining records have no gaps, whatever the clock does.
func (t *Tx) trim(b store.Budget, limits store.Retention) error {
	room, err := t.rows.Room(b)
	if err != nil || room == 0 {
		return err
	}
	oldest := time.UnixMilli(t.millis).Add(-limits.Age) // removed records are lost, so the cautious clock decides here as well
	goes := func(place int, r *store.ChangeRecord) bool {
		left := room - place // including this record
		return left > limits.Of(b) || left > 1 && r.Time.Before(oldest)
	}
	var last *store.ChangeRecord
	for _, n := range []int{1, len(t.records) + trimStep} { // in most cases none has to be removed
		eldest, err := t.rows.Eldest(b, n)
		if err != nil {
			return err
		}
		for i := range eldest {
			if !goes(i, &eldest[i]) {
				break
			}
			last = &eldest[i]
		}
		if last == nil {
			return nil
		}
	}
	return t.rows.Forget(b, last.Number, last.Previous+1)
}

// Records implements [store.Reader].
func (r *Reader) Records(q store.RecordQuery) ([]store.ChangeRecord, error) {
	if err := r.going(); err != nil {
		return nil, err
	}
	list, err := r.rows.Select(q)
	if err != nil {
		return nil, unexpected(err)
	}
	return list, nil
}

// CountRecords implements [store.Reader].
func (r *Reader) CountRecords(q store.RecordQuery) (int, error) {
	if err := r.going(); err != nil {
		return 0, err
	}
	n, err := r.rows.Tally(q)
	if err != nil {
		return 0, unexpected(err)
	}
	return n, nil
}

// RecordsSince implements [store.Reader].
func (r *Reader) RecordsSince(q store.RecordQuery) (newest uint64, _ error) {
	if err := r.going(); err != nil {
		return 0, err
	}
	for _, b := range q.Budgets() {
		since, err := r.rows.Since(b)
		if err != nil {
			return 0, unexpected(err)
		}
		newest = max(newest, since)
	}
	return newest, nil
}
