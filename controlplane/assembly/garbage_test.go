package assembly

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
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

// TestGarbageIsBounded: a large heap grows by half at most, and a small one is collected
// rarely, also after it was large.
func TestGarbageIsBounded(t *testing.T) {
	restoreGC(t)
	g := boundGarbage(func(string) string { return "" })
	t.Cleanup(g.end)
	until := func(what string, wanted func(goal, live uint64) bool) {
		t.Helper()
		for late := time.Now().Add(conditionPatience); !wanted(heapGoal(), liveHeap()); runtime.GC() {
			if time.Now().After(late) {
				t.Fatalf("%s: the heap may grow to %d MiB, %d MiB of it are in use", what, heapGoal()>>20, liveHeap()>>20)
			}
		}
	}
	for range 2 {
		held := make([]byte, 256<<20)
		until("large", func(goal, live uint64) bool { return live >= 256<<20 && goal <= live*8/5 })
		runtime.KeepAlive(held)
		until("small", func(goal, live uint64) bool { return live < 64<<20 && goal >= min(4*live, live+gcSpare*3/4) })
	}
}

// TestGarbageIsTheOperators: GOGC is obeyed as in every Go program.
func TestGarbageIsTheOperators(t *testing.T) {
	restoreGC(t)
	debug.SetGCPercent(70) // as the runtime does after reading GOGC
	g := boundGarbage(func(name string) string { return map[string]string{"GOGC": "70"}[name] })
	if now := debug.SetGCPercent(70); g != nil || now != 70 {
		t.Errorf("GOGC is %d", now)
	}
	g.end()
}

func TestPercentFor(t *testing.T) {
	for live, want := range map[uint64]int{0: 400, 8 << 20: 400, 16 << 20: 200, 32 << 20: 100, 64 << 20: 50, 512 << 20: 50, 64 << 30: 50} {
		if got := percentFor(live); got != want {
			t.Errorf("%d MiB in use: %d per cent, want %d", live>>20, got, want)
		}
	}
}
