package lease

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TestRemove: the row of a lease is removed unless somebody may hold it, whom the removal would let another one join.
func TestRemove(t *testing.T) {
	processes(t, func(t *testing.T, a, _ *disk, first, second *Holder) {
		alone := New(Options{Writer: a, Holder: "c", Span: span, Sole: true})
		there := func(by *Holder) bool {
			t.Helper()
			is := false
			_, err := a.Update(t.Context(), model.Credential, func(tx store.Tx) error {
				if err := by.Remove(tx, "x"); err != nil {
					return err
				}
				_, err := tx.Get(Leases, "", "x")
				if is = err == nil; fault.Is(err, fault.NotFound) {
					return nil
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return is
		}
		if there(first) {
			t.Error("there is a row of a lease that nobody has taken")
		}
		l := take(t, first)
		if !there(first) || !there(second) {
			t.Error("the row of a lease that is held is removed")
		}
		l.Release(t.Context())
		if there(second) {
			t.Error("the row of a lease that was given back is left")
		}
		l = take(t, first)
		if there(alone) {
			t.Error("the row of another process is left, though there is none")
		}
		l.Release(t.Context())
		l = take(t, alone)
		if !there(alone) {
			t.Error("the row of a lease of the own process is removed")
		}
		l.Release(t.Context())
	})
}
