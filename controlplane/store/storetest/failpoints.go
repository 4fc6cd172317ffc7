package storetest

import (
	"context"
	"errors"
	"sync"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// ErrFailpoint is the cause of the failures of [Failpoints].
var ErrFailpoint = errors.New("the failpoint")

// Failpoints is a store in which one chosen call fails, as calls on a broken disk do. The
// call does nothing, and a transaction in which a call failed commits nothing. The feed never
// fails.
type Failpoints struct {
	store.Store
	trigger
}

// StatusFailpoints does the same as [Failpoints] for a status store.
type StatusFailpoints struct {
	store.Status
	trigger
}

// trigger counts calls and makes one of them fail.
type trigger struct {
	mu sync.Mutex
	// at is the number of the call that fails; 0 for none.
	at, calls int
	hit       string
}

// Arm makes the call with this number fail, counted from 1 from now on; 0 makes none fail.
func (f *trigger) Arm(at int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.calls, f.hit = at, 0, ""
}

// Calls returns the number of calls since the store was armed.
func (f *trigger) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// Hit returns the call that failed; empty if none has.
func (f *trigger) Hit() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hit
}

func (f *trigger) fail(call string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls++; f.calls != f.at {
		return nil
	}
	f.hit = call
	return fault.Wrap(fault.Internal, ErrFailpoint, "the store failed")
}

// View implements [store.Store].
func (f *Failpoints) View(ctx context.Context, fn func(store.Reader) error) error {
	if err := f.fail("View"); err != nil {
		return err
	}
	return f.Store.View(ctx, func(r store.Reader) error { return fn(&failReader{Reader: r, points: f}) })
}

// Update implements [store.Store].
func (f *Failpoints) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	if err := f.fail("Update"); err != nil {
		return store.Commit{}, err
	}
	return f.Store.Update(ctx, class, func(tx store.Tx) error {
		t := &failTx{failReader{Reader: tx, points: f}, tx}
		if err := fn(t); err != nil {
			return err
		}
		if t.broken != nil {
			return t.broken
		}
		return f.fail("Commit")
	})
}

// failReader is a reader whose calls may fail; broken is the failure.
type failReader struct {
	store.Reader
	points *Failpoints
	broken error
}

func (r *failReader) fail(call string) error {
	err := r.points.fail(call)
	if err != nil {
		r.broken = err
	}
	return r.broken
}

// Get implements [store.Reader].
func (r *failReader) Get(k *model.Kind, scope, name string) (*model.Resource, error) {
	if err := r.fail("Get"); err != nil {
		return nil, err
	}
	return r.Reader.Get(k, scope, name)
}

// Find implements [store.Reader].
func (r *failReader) Find(k *model.Kind, scope, index, value string) (*model.Resource, error) {
	if err := r.fail("Find"); err != nil {
		return nil, err
	}
	return r.Reader.Find(k, scope, index, value)
}

// Named implements [store.Reader].
func (r *failReader) Named(k *model.Kind, scope string, names []string) ([]*model.Resource, error) {
	if err := r.fail("Named"); err != nil {
		return nil, err
	}
	return r.Reader.Named(k, scope, names)
}

// List implements [store.Reader].
func (r *failReader) List(k *model.Kind, q store.Query) ([]*model.Resource, error) {
	if err := r.fail("List"); err != nil {
		return nil, err
	}
	return r.Reader.List(k, q)
}

// Count implements [store.Reader].
func (r *failReader) Count(k *model.Kind, q store.Query) (int, error) {
	if err := r.fail("Count"); err != nil {
		return 0, err
	}
	return r.Reader.Count(k, q)
}

// Records implements [store.Reader].
func (r *failReader) Records(q store.RecordQuery) ([]store.ChangeRecord, error) {
	if err := r.fail("Records"); err != nil {
		return nil, err
	}
	return r.Reader.Records(q)
}

// CountRecords implements [store.Reader].
func (r *failReader) CountRecords(q store.RecordQuery) (int, error) {
	if err := r.fail("CountRecords"); err != nil {
		return 0, err
	}
	return r.Reader.CountRecords(q)
}

// RecordsSince implements [store.Reader].
func (r *failReader) RecordsSince(q store.RecordQuery) (uint64, error) {
	if err := r.fail("RecordsSince"); err != nil {
		return 0, err
	}
	return r.Reader.RecordsSince(q)
}

type failTx struct {
	failReader
	tx store.Tx
}

// Create implements [store.Tx].
func (t *failTx) Create(r *model.Resource) (*model.Resource, error) {
	if err := t.fail("Create"); err != nil {
		return nil, err
	}
	return t.tx.Create(r)
}

// Update implements [store.Tx].
func (t *failTx) Update(r *model.Resource, version uint64) (*model.Resource, error) {
	if err := t.fail("Update of a resource"); err != nil {
		return nil, err
	}
	return t.tx.Update(r, version)
}

// Delete implements [store.Tx].
func (t *failTx) Delete(k *model.Kind, scope, name string, version uint64) error {
	if err := t.fail("Delete"); err != nil {
		return err
	}
	return t.tx.Delete(k, scope, name, version)
}

// Announce implements [store.Tx].
func (t *failTx) Announce(key model.Key, op store.Op) { t.tx.Announce(key, op) }

// Announced implements [store.Tx].
func (t *failTx) Announced(key model.Key) bool { return t.tx.Announced(key) }

// Changes implements [store.Tx].
func (t *failTx) Changes() []store.Change { return t.tx.Changes() }

// Record implements [store.Tx].
func (t *failTx) Record(r store.ChangeRecord) { t.tx.Record(r) }

// Put implements [store.Status].
func (f *StatusFailpoints) Put(ctx context.Context, rows []store.StatusRow) error {
	if err := f.fail("Put"); err != nil {
		return err
	}
	return f.Status.Put(ctx, rows)
}

// Get implements [store.Status].
func (f *StatusFailpoints) Get(ctx context.Context, key model.Key) ([]byte, error) {
	if err := f.fail("Get"); err != nil {
		return nil, err
	}
	return f.Status.Get(ctx, key)
}

// List implements [store.Status].
func (f *StatusFailpoints) List(ctx context.Context, kind, scope string) ([]store.StatusRow, error) {
	if err := f.fail("List"); err != nil {
		return nil, err
	}
	return f.Status.List(ctx, kind, scope)
}

// Delete implements [store.Status].
func (f *StatusFailpoints) Delete(ctx context.Context, keys []model.Key) error {
	if err := f.fail("Delete"); err != nil {
		return err
	}
	return f.Status.Delete(ctx, keys)
}
