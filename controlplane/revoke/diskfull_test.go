package revoke

import (
	"context"
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// onADisk runs a test in a virtual world whose store refuses writes when it is told to.
func onADisk(t *testing.T, fn func(t *testing.T, w *world, disk *fullStore)) {
	t.Helper()
	disk := &fullStore{}
	virtually(t, func(o *Options) { disk.Store, o.Store = o.Store, disk }, func(t *testing.T, w *world, _ *scripted) {
		defer disk.refuse(false)
		w.settles(t)
		fn(t, w, disk)
	})
}

// leases keeps a lease for a while.
func (f *fake) leases(span time.Duration) {
	f.t.Helper()
	for end := time.Now().Add(span); time.Now().Before(end); time.Sleep(time.Second) {
		f.lease()
	}
}

// die ends a process whose disk is full: it stores nothing, as one that is killed.
func (w *world) die() {
	w.t.Helper()
	if err := w.r.Close(context.Background()); err == nil {
		w.t.Error("the end was noted on a full disk")
	}
}

// A filter that was linked when the disk became full gets its link back, however long the
// disk has been full.
func TestLinkedFilterReturnsOnAFullDisk(t *testing.T) {
	onADisk(t, func(t *testing.T, w *world, disk *fullStore) {
		f, wel := w.pipe("node", contract.Hello{Instance: "i"})
		disk.refuse(true)
		f.leases(time.Hour)
		f.cut()
		time.Sleep(time.Second)
		g, again := w.pipe("node", contract.Hello{Instance: "i", Log: wel.Log, Applied: f.first.To})
		if again.From != f.first.To {
			t.Errorf("it begins anew: %+v", again)
		}
		g.lease()
	})
}

// A control plane that starts on a full disk links the filters that its predecessor had
// linked when the disk became full.
func TestLinkedFilterReturnsToAControlPlaneThatStartsOnAFullDisk(t *testing.T) {
	onADisk(t, func(t *testing.T, w *world, disk *fullStore) {
		f, _ := w.pipe("node", contract.Hello{Instance: "i"})
		disk.refuse(true)
		f.leases(40 * time.Minute)
		f.cut()
		w.die()
		w.open(nil)
		time.Sleep(time.Second)
		g, _ := w.pipe("node", contract.Hello{Instance: "i"})
		g.lease()
	})
}

// A filter that was away when the disk became full is not linked before the disk takes its
// row. The row is older than the stored time. The next process would take that difference
// for time in which the filter had no lease, and would forget it while it still believes
// Redis.
func TestFilterThatWasAwayIsNotLinkedOnAFullDisk(t *testing.T) {
	onADisk(t, func(t *testing.T, w *world, disk *fullStore) {
		w.pause.Store(int64(time.Minute))
		f, _ := w.pipe("node", contract.Hello{Instance: "i"})
		f.lease()
		f.cut()
		time.Sleep(20 * time.Hour)
		disk.refuse(true)
		if w.linked("i") {
			t.Fatal("a filter is linked that the next process would forget too early")
		}
		disk.refuse(false)
		if !w.linked("i") {
			t.Error("it is not linked when it can be stored")
		}
	})
}

// A filter that was linked on a disk that had been full for longer than filters are
// remembered is known to the next process for as long as it may believe Redis.
func TestFilterOfAFullDiskIsKnownToTheNextProcess(t *testing.T) {
	onADisk(t, func(t *testing.T, w *world, disk *fullStore) {
		w.pause.Store(int64(time.Minute))
		f, _ := w.pipe("node", contract.Hello{Instance: "i"})
		f.lease()
		disk.refuse(true)
		for range 3 {
			f.leases(time.Minute)
			f.cut()
			time.Sleep(10 * time.Hour)
			f, _ = w.pipe("node", contract.Hello{Instance: "i"})
			f.lease()
		}
		last := time.Now()
		f.cut()
		w.die()
		disk.refuse(false)
		w.open(nil)
		time.Sleep(time.Until(last.Add(contract.TrustFor)))
		if n := w.r.Stats().KnownFilters; n != 1 {
			t.Errorf("%d filters are known while one may still believe Redis", n)
		}
	})
}

// The time is not stored while the row of a filter is older than the filter's last link.
func TestTimeWaitsForTheRowsOfFilters(t *testing.T) {
	for name, stays := range map[string]bool{"of one that is linked": true, "of one that was linked": false} {
		t.Run(name, func(t *testing.T) {
			onADisk(t, func(t *testing.T, w *world, disk *fullStore) {
				f, _ := w.pipe("node", contract.Hello{Instance: "i"})
				f.lease()
				disk.refuse(true)
				f.cut()
				time.Sleep(5 * time.Hour)
				g, _ := w.pipe("node", contract.Hello{Instance: "i"})
				g.lease()
				if !stays {
					g.cut()
				}
				disk.refuse(false) // and a write of the rows that had begun before has ended
				_, before := w.stored()
				err := w.r.noteTimes(t.Context())
				if _, at := w.stored(); err == nil || at != before {
					t.Errorf("%v, and the time is stored as %v later", err, time.Duration(at-before)*time.Millisecond)
				}
			})
		})
	}
}
