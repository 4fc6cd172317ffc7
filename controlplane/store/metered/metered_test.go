package metered

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

type told struct {
	viewed, updated []string
	committed       int
}

func (t *told) Viewed(r Result, _ time.Duration)  { t.viewed = append(t.viewed, r.String()) }
func (t *told) Updated(r Result, _ time.Duration) { t.updated = append(t.updated, r.String()) }
func (t *told) Committed(uint64, time.Time)       { t.committed++ }

// TestResults distinguishes failures of the store, which cause alerts, from refusals.
func TestResults(t *testing.T) {
	var got told
	s := New(memstore.New(), &got)
	defer func() { _ = s.Close() }()
	ctx := context.Background()
	for _, err := range []error{
		nil, fault.New(fault.Conflict, "x"), errors.New("a rule of OAuth"),
		fault.New(fault.Internal, "x"), fault.New(fault.Unavailable, "x"), context.Canceled,
		fmt.Errorf("wrapped: %w", store.ErrRehearsed),
	} {
		_ = s.View(ctx, func(store.Reader) error { return err })
		_, _ = s.Update(ctx, model.Credential, func(store.Tx) error { return err })
	}
	want := []string{"ok", "refused", "refused", "failed", "failed", "abandoned", "rehearsed"}
	if diff := cmp.Diff(told{want, want, 1}, got, cmp.AllowUnexported(told{})); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkView shows the cost of measuring for a transaction that does nothing.
func BenchmarkView(b *testing.B) {
	plain := memstore.New()
	defer func() { _ = plain.Close() }()
	for name, s := range map[string]store.Store{"plain": plain, "metered": New(plain, nobody{})} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = s.View(b.Context(), func(store.Reader) error { return nil })
			}
		})
	}
}

type nobody struct{}

func (nobody) Viewed(Result, time.Duration)  {}
func (nobody) Updated(Result, time.Duration) {}
func (nobody) Committed(uint64, time.Time)   {}
