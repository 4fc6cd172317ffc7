package host

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/host/hosttest"
)

// heapGoal returns the size at which the heap is collected.
func heapGoal() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// restoreGC resets the garbage collector after a test.
func restoreGC(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
}

// collectUntil collects until the heap's goal is as wanted.
func collectUntil(t *testing.T, what string, wanted func(goal uint64) bool) {
	t.Helper()
	for late := time.Now().Add(time.Minute); !wanted(heapGoal()); runtime.GC() {
		if time.Now().After(late) {
			t.Fatalf("%s: the heap may grow to %d MiB, %d MiB of it are in use", what, heapGoal()>>20, liveHeap()>>20)
		}
	}
}

// TestGarbageIsBounded: a full first level does not multiply, and a small heap is collected
// rarely, even after it was large.
func TestGarbageIsBounded(t *testing.T) {
	restoreGC(t)
	g := boundGarbage(New(NewLogger(&hosttest.Log{}), nil), func(string) string { return "" })
	t.Cleanup(g.end)
	small := liveHeap()
	for range 2 {
		level := make([]byte, 512<<20)
		collectUntil(t, "full", func(goal uint64) bool {
			return liveHeap() >= 512<<20 && goal <= 512<<20+small+gcSpare*5/4
		})
		runtime.KeepAlive(level)
		collectUntil(t, "empty", func(goal uint64) bool { return liveHeap() < 64<<20 && goal >= 4*liveHeap() })
	}
}

// TestGarbageIsTheOperators: GOGC is obeyed as in every Go program.
func TestGarbageIsTheOperators(t *testing.T) {
	restoreGC(t)
	env := map[string]string{"GOGC": "50"}
	debug.SetGCPercent(50) // as the runtime does after reading GOGC
	if boundGarbage(New(NewLogger(&hosttest.Log{}), nil), func(name string) string { return env[name] }) != nil {
		t.Error("the module takes a heap over that the operator has set")
	}
	if now := debug.SetGCPercent(50); now != 50 {
		t.Errorf("GOGC is %d", now)
	}
}

func TestPercentFor(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 10 << 20: 400, 12 << 20: 400, 24 << 20: 200, 96 << 20: 50, 256 << 20: 18, 512 << 20: 10, 64 << 30: leastPercent} {
		if got := percentFor(live); got != want {
			t.Errorf("%d MiB in use: %d per cent, want %d", live>>20, got, want)
		}
	}
}
