package store

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Limits of a [Status].
const (
	// MaxStatusRow bounds one value, in bytes.
	MaxStatusRow = 256 << 10
	// MaxStatusBatch bounds the rows of one Put and the keys of one Delete.
	MaxStatusBatch = 1000
)

// AnyScope selects the rows of all scopes in [Status.List]. No scope has this name.
const AnyScope = "*"

// StatusRow is one value of class status.
type StatusRow struct {
	Key model.Key
	// Value is opaque to the store.
	Value []byte
}

// Status keeps what is observed rather than configured: rows without revision, feed, indexes
// or versions (storage class [model.Status]). Writing is cheap. A power failure may lose the
// last writes; the death of the process loses nothing. Implementations are safe for
// concurrent use, and only one process at a time has the same rows. Errors are
// [fault.Error]s: Unavailable after Close, TooLarge beyond the limits, anything else is
// internal.
type Status interface {
	// Put writes all rows or none. A row replaces the existing one with its key.
	Put(ctx context.Context, rows []StatusRow) error
	// Get returns a value; NotFound if there is none.
	Get(ctx context.Context, key model.Key) ([]byte, error)
	// List returns the rows of a kind in one scope or [AnyScope], ordered by scope
	// and name.
	List(ctx context.Context, kind, scope string) ([]StatusRow, error)
	// Delete removes all of the rows that exist, or none.
	Delete(ctx context.Context, keys []model.Key) error
	// Close waits for running calls and releases the store.
	Close() error
}

// CheckStatusRows checks a batch against the limits, for implementations.
func CheckStatusRows(rows []StatusRow) error {
	if len(rows) > MaxStatusBatch {
		return fault.New(fault.TooLarge, "a batch has at most %d rows", MaxStatusBatch)
	}
	for _, r := range rows {
		if len(r.Value) > MaxStatusRow {
			return fault.New(fault.TooLarge, "%s %s has %d bytes, %d are possible", r.Key.Kind, r.Key.Name, len(r.Value), MaxStatusRow)
		}
	}
	return nil
}

// CheckStatusKeys does the same as [CheckStatusRows] for deletions.
func CheckStatusKeys(keys []model.Key) error {
	if len(keys) > MaxStatusBatch {
		return fault.New(fault.TooLarge, "a batch has at most %d keys", MaxStatusBatch)
	}
	return nil
}
