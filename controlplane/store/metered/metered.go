// Package metered measures the transactions of a store, whichever it is.
package metered

import (
	"context"
	"errors"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Result is the outcome of a transaction.
type Result int

// The outcomes of transactions.
const (
	// OK: the transaction succeeded.
	OK Result = iota
	// Refused: a rule of the store, such as a conflict, or of the caller refused it.
	Refused
	// Failed: the store could not do it.
	Failed
	// Abandoned: the caller went away.
	Abandoned
	// Rehearsed: it went well, and was undone as intended.
	Rehearsed
	// Results is the number of outcomes.
	Results
)

// String returns the result as a label of metrics.
func (r Result) String() string {
	return [Results]string{"ok", "refused", "failed", "abandoned", "rehearsed"}[r]
}

// Meter is told about transactions. It must not block.
type Meter interface {
	// Viewed and Updated are told how long a transaction took, including the wait for its
	// turn and the work of the caller's function.
	Viewed(r Result, took time.Duration)
	Updated(r Result, took time.Duration)
	// Committed is told the revision of each commit. A commit that announces nothing has the
	// revision of an earlier one.
	Committed(revision uint64, at time.Time)
}

// New returns a store whose transactions a meter measures.
func New(s store.Store, m Meter) store.Store { return &metered{s, m} }

type metered struct {
	store.Store
	meter Meter
}

// View implements store.Store.
func (s *metered) View(ctx context.Context, fn func(store.Reader) error) error {
	begun := time.Now()
	err := s.Store.View(ctx, fn)
	s.meter.Viewed(resultOf(err), time.Since(begun))
	return err
}

// Update implements store.Store.
func (s *metered) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	begun := time.Now()
	c, err := s.Store.Update(ctx, class, fn)
	end := time.Now()
	s.meter.Updated(resultOf(err), end.Sub(begun))
	if err == nil {
		s.meter.Committed(c.Revision, end)
	}
	return c, err
}

// resultOf separates failures of the store from mistakes of its users.
func resultOf(err error) Result {
	if err == nil {
		return OK
	}
	if errors.Is(err, store.ErrRehearsed) {
		return Rehearsed
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Abandoned
	}
	// Stores give each of their own errors a code. An error without one is a refusal by the
	// caller's function.
	if e, ok := errors.AsType[*fault.Error](err); ok && (e.Code == fault.Internal || e.Code == fault.Unavailable || e.Code == fault.Unstored) {
		return Failed
	}
	return Refused
}
