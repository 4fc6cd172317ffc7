package memstore

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

type mortal struct{ Ends int64 }

var mortals = &model.Kind{
	Name: "mortal", Class: model.Credential, New: func() any { return new(mortal) },
	Expires: func(spec any) time.Time { return time.UnixMilli(spec.(*mortal).Ends) },
}

// TestSweepCatchesUp: one sweep removes all rows that have ended.
func TestSweepCatchesUp(t *testing.T) {
	var clock atomic.Int64
	clock.Store(1_700_000_000_000)
	m := Open(Options{Now: func() time.Time { return time.UnixMilli(clock.Load()) }}).(*memory)
	defer func() { _ = m.Close() }()
	if _, err := m.Update(t.Context(), model.Credential, func(tx store.Tx) error {
		for i := range 3000 {
			spec := &mortal{Ends: clock.Load() + 3_600_000 + int64(i)}
			if _, err := tx.Create(&model.Resource{Kind: mortals, Name: fmt.Sprint(i), Spec: spec}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	clock.Add(3_600_000 + 2999)
	m.sweepAll()
	left := 0
	m.current.Load().rows.ascend("", func(string, *model.Resource) bool { left++; return true })
	if left != 0 {
		t.Errorf("%d rows are left", left)
	}
}
