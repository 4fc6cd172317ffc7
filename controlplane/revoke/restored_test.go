package revoke

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// restored kills the process, and starts another one on its store as if it came from a
// backup of the given age. change, if any, is made to the backup.
func (j *jumping) restored(age, unused time.Duration, change func(store.Tx) error) {
	j.t.Helper()
	j.crash()
	time.Sleep(age)
	if change != nil {
		if _, err := j.commit(change); err != nil {
			j.t.Fatal(err)
		}
	}
	if err := Restored(j.t.Context(), j.store); err != nil {
		j.t.Fatal(err)
	}
	time.Sleep(unused)
	j.open(nil)
}

// A gateway may have been linked until the host of the former control plane was lost,
// however old the backup is. From the first process on the restored store on, it is waited
// for as long as it may believe the former Redis, whatever the clocks showed.
func TestFiltersOfAnOldBackupAreWaitedFor(t *testing.T) {
	for name, tt := range map[string]struct {
		age, unused time.Duration
		change      func(store.Tx) error
		off         time.Duration
	}{
		"of just now":              {},
		"of two days ago":          {age: 2 * day},
		"started days later":       {age: 2 * day, unused: 2 * day},
		"without a time":           {age: 2 * day, change: func(tx store.Tx) error { return tx.Delete(times, "", singleton, 0) }},
		"by a clock that is ahead": {age: time.Hour, off: 5 * day},
	} {
		t.Run(name, func(t *testing.T) {
			jumps(t, false, func(j *jumping) {
				f, _ := j.pipe("node", contract.Hello{Instance: "i"})
				j.rest()
				f.cut()
				j.wall.Set(tt.off)
				j.restored(tt.age, tt.unused, tt.change)
				says(j.t, j.revoke(j.touchApp()), "1 of 1 gateways", "node")
				says(j.t, j.r.Settle(j.t.Context()), "node")
				j.sleep(contract.TrustFor)
				says(j.t, j.revoke(j.touchApp()), "node")
				j.sleep(contract.RememberFilter - contract.TrustFor + 2*rememberEvery)
				if err := j.revoke(j.touchApp()); err != nil {
					j.t.Errorf("a day after the restore: %v", err)
				}
				if known := j.r.Stats().KnownFilters; known != 0 || j.rows() != 0 {
					j.t.Errorf("%d filters are known, of %d rows", known, j.rows())
				}
			})
		})
	}
}

// The wait for a gateway of an old backup ends when an operator declares it gone for good,
// or when it is linked again. The wait survives a restart.
func TestWaitForFiltersOfAnOldBackupEnds(t *testing.T) {
	for name, end := range map[string]func(j *jumping){
		"gone for good": func(j *jumping) {
			if err := j.r.Gone("node"); err != nil {
				j.t.Error(err)
			}
		},
		"linked again": func(j *jumping) { j.pipe("node", contract.Hello{Instance: "i"}) },
	} {
		t.Run(name, func(t *testing.T) {
			jumps(t, false, func(j *jumping) {
				f, _ := j.pipe("node", contract.Hello{Instance: "i"})
				j.rest()
				f.cut()
				j.restored(2*day, 0, nil)
				j.rest()
				j.restart(0)
				says(j.t, j.revoke(j.touchApp()), "node")
				end(j)
				j.rest()
				if err := j.revoke(j.touchApp()); err != nil {
					j.t.Error(err)
				}
				if err := j.r.Settle(j.t.Context()); err != nil {
					j.t.Error(err)
				}
			})
		})
	}
}

// Filters that were first linked after the backup may hold a lease, and revocations of the
// former control plane may be hidden. Neither wait is skipped although the store knows no
// filter.
func TestRestoredStoreWaitsForTheFirstLease(t *testing.T) {
	for _, age := range []time.Duration{0, 2 * day} {
		jumps(t, false, func(j *jumping) {
			j.restored(age, 0, nil)
			begun := time.Now()
			if err := j.r.Settle(j.t.Context()); err != nil || time.Since(begun) < contract.Lease {
				j.t.Errorf("backup of %v ago: %v after %v", age, err, time.Since(begun))
			}
		})
	}
}

// A filter believes the Redis of the former control plane even if the next one has none. It
// is waited for until it has heard that there is none, both after a restore and when Redis
// is no longer configured.
func TestFiltersOfAFormerRedisAreWaitedFor(t *testing.T) {
	for name, next := range map[string]func(j *jumping){
		"restored": func(j *jumping) { j.restored(2*day, 0, nil) },
		"restored, of a store that knew none": func(j *jumping) {
			j.restored(0, 0, func(tx store.Tx) error { return tx.Delete(epochs, "", singleton, 0) })
		},
		"after a crash":     func(j *jumping) { j.crash(); j.open(nil) },
		"after a clean end": func(j *jumping) { j.close(j.r); j.open(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			jumps(t, false, func(j *jumping) {
				f, _ := j.pipe("node", contract.Hello{Instance: "i"})
				j.rest()
				f.cut()
				j.remote = nil
				next(j)
				says(j.t, j.revoke(j.touchApp()), "Redis is not used any more", "1 of 1 gateways", "node")
				says(j.t, j.r.Settle(j.t.Context()), "node")
				j.crash()
				j.open(nil)
				says(j.t, j.revoke(j.touchApp()), "node")
				f, _ = j.pipe("node", contract.Hello{Instance: "i"})
				j.rest()
				if err := j.revoke(j.touchApp()); err != nil {
					j.t.Errorf("it has heard: %v", err)
				}
				f.cut()
				j.close(j.r)
				j.open(nil)
				if err := j.revoke(j.touchApp()); err != nil {
					j.t.Errorf("it had heard before the restart: %v", err)
				}
			})
		})
	}
}

// A gateway was restarted between the backup and the restore: its new filter is linked, and
// the filter of the backup is not. Revocations wait for the latter until its agent reports
// that it has ended, or an operator declares it gone. Neither forgets a filter that may be
// alive: a filter of another process that is linked, or of a node with no linked filter.
func TestFormerFilterOfALinkedNode(t *testing.T) {
	before, after := strings.Repeat("A", 26), strings.Repeat("B", 26)
	for name, end := range map[string]func(j *jumping) error{
		"its agent says it has ended": func(j *jumping) error {
			return j.r.Ended(Node{ID: "node"}, contract.Ended{Processes: []string{before}, Successor: after})
		},
		"an operator says it is gone": func(j *jumping) error { return j.r.GoneFormer("node") },
	} {
		t.Run(name, func(t *testing.T) {
			jumps(t, false, func(j *jumping) {
				f, _ := j.pipe("node", contract.Hello{Instance: instance(before, "x")})
				j.rest()
				f.cut()
				j.restored(time.Hour, 0, nil)
				if err := j.r.GoneFormer("node"); !fault.Is(err, fault.Conflict) || j.r.Stats().KnownFilters != 1 {
					j.t.Errorf("while nothing is linked: %v", err)
				}
				link := func() { j.pipe("node", contract.Hello{Instance: instance(after, "x")}) }
				link()
				twin, _ := j.pipe("node", contract.Hello{Instance: instance(after, "y")})
				twin.cut()
				j.rest()
				says(j.t, j.revoke(j.touchApp()), "node", "1 of 3 gateways", "former=true")
				link() // the former filter was silent for as long as the revocation took
				if err := end(j); err != nil {
					j.t.Fatal(err)
				}
				if known := j.r.Stats().KnownFilters; known != 2 || j.rows() != 2 {
					j.t.Errorf("%d filters are known, of %d rows that outlive the process", known, j.rows())
				}
				j.rest()
				if err := j.revoke(j.touchApp()); err != nil {
					j.t.Error(err)
				}
				j.crash() // a report that was answered is in the store
				j.open(nil)
				if known := j.r.Stats().KnownFilters; known != 2 || j.rows() != 2 {
					j.t.Errorf("after a restart %d filters are known, of %d rows", known, j.rows())
				}
			})
		})
	}
}

// If there is and was no Redis, a filter that is away holds nothing but its lease.
func TestNobodyIsWaitedForWithoutRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, virtual: true}
		w.init(nil)
		f, _ := w.pipe("node", contract.Hello{Instance: "i"})
		f.cut()
		for range 2 {
			if err := w.write(w.touch(gateway.Applications, w.app)); err != nil {
				t.Error(err)
			}
			w.close(w.r)
			w.open(nil)
		}
	})
}
