package assembly

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

const (
	// gcPercent lets a large heap grow by half before it is collected. Most of it is the
	// state of connected proxies, which stays; what a change leaves behind is little,
	// so that collecting more often costs less than holding twice the memory.
	gcPercent = 50
	// gcSpare is the number of bytes of garbage that may accumulate in any case. The heap of
	// a control plane with few proxies is small, and what it issues is garbage at once.
	gcSpare = 32 << 20
	// mostPercent bounds how much an empty heap may grow.
	mostPercent = 400
)

// garbage adjusts how often the heap of this process is collected after each collection,
// because only then it is known how much is in use.
type garbage struct {
	percent atomic.Int64
	ended   atomic.Bool
}

// boundGarbage begins to adjust. It returns nil if the environment variable GOGC says how
// often the heap is collected.
func boundGarbage(getenv func(string) string) *garbage {
	if getenv("GOGC") != "" {
		return nil
	}
	g := &garbage{}
	g.percent.Store(gcPercent)
	debug.SetGCPercent(gcPercent)
	g.watch()
	return g
}

// cycle is an unused object. Its removal shows that there was a collection. It contains a
// pointer, because objects without pointers share memory with others and may stay.
type cycle struct{ _ *byte }

// watch makes the next collection call adapt.
func (g *garbage) watch() {
	runtime.AddCleanup(&cycle{}, func(g *garbage) {
		if g.ended.Load() {
			return
		}
		g.watch()
		g.adapt(liveHeap())
	}, g)
}

// adapt sets the share of garbage for the bytes in use. Setting it stops all goroutines for
// a moment, so adapt ignores small differences.
func (g *garbage) adapt(live uint64) {
	next, last := int64(percentFor(live)), g.percent.Load()
	if d := next - last; d*d*100 > last*last { // by more than a tenth
		g.percent.Store(next)
		debug.SetGCPercent(int(next))
	}
}

// end stops the adjustment. It may be called on nil.
func (g *garbage) end() {
	if g != nil {
		g.ended.Store(true)
	}
}

// percentFor returns the share of garbage that is allowed beside some bytes in use.
func percentFor(live uint64) int {
	if live < gcSpare*100/mostPercent {
		return mostPercent
	}
	return max(gcPercent, int(gcSpare*100/live))
}

// liveHeap returns the number of bytes that the last collection found in use.
func liveHeap() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
