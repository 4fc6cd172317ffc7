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

// Result is what became of a transaction.
type Result int

// Results.
const (
	// OK transactions were done.
	OK Result = iota
	// Refused ones broke a rule: of the store, such as a conflict, or of whoever ran
	// them.
	Refused
	// Failed ones the store could not do.
	Failed
	// Abandoned ones had a caller who went away.
	Abandoned
	// Results is how many there are.
	Results
)

// String is the result in labels.
func (r Result) String() string {
	return [Results]string{"ok", "refused", "failed", "abandoned"}[r]
}

// Meter is told of transactions. It must not block.
type Meter interface {
	// Viewed and Updated are told how long a transaction took, with the wait for its
	// turn and with the work of whoever runs it.
	Viewed(r Result, took time.Duration)
	Updated(r Result, took time.Duration)
	// Committed is told of the revision of each commit; one that announced nothing
	// has that of an earlier one.
	Committed(revision uint64, at time.Time)
}

// New returns a store that is measured.
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

// resultOf tells what the store did wrong from what its users did.
func resultOf(err error) Result {
	if err == nil {
		return OK
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Abandoned
	}
	// What has no code is a refusal of whoever runs the transaction: stores give each
	// of their own errors one.
	if e, ok := errors.AsType[*fault.Error](err); ok && (e.Code == fault.Internal || e.Code == fault.Unavailable || e.Code == fault.Unstored) {
		return Failed
	}
	return Refused
}
