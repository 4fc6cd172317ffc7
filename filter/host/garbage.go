package host

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

const (
	// gcPercent trades memory for fewer collections while the heap is small.
	gcPercent = 400
	// gcSpare is the number of bytes of garbage that may accumulate. A share of the heap
	// alone would allow a full first level of 256 MiB a gibibyte of garbage.
	gcSpare = 48 << 20
	// leastPercent keeps collections from being too frequent if the heap is larger than
	// expected. Each collection scans everything except the bytes of the first level.
	leastPercent = 10
)

// garbage bounds what the Go heap occupies beyond what is in use. It adjusts after every
// collection, because the amount in use is not known beforehand: the sizes of the token
// caches change with their settings, a draining listener has a cache of its own, and route
// tables bring programs. A fixed limit would be too low one day, and the runtime would then
// collect without end.
type garbage struct {
	host    *Host
	percent atomic.Int64
	ended   atomic.Bool
}

// boundGarbage sets how often the heap of this process is collected. It returns nil if the
// environment variable GOGC does so already. GOMEMLIMIT needs no handling, because the runtime
// obeys both bounds.
func boundGarbage(h *Host, getenv func(string) string) *garbage {
	if getenv("GOGC") != "" {
		return nil
	}
	g := &garbage{host: h}
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
		defer g.host.Recovered("bound garbage")
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

// end stops the adjustment; for tests.
func (g *garbage) end() { g.ended.Store(true) }

// percentFor returns the share of garbage that amounts to gcSpare.
func percentFor(live uint64) int {
	if live < gcSpare*100/gcPercent {
		return gcPercent
	}
	return max(leastPercent, int(gcSpare*100/live))
}

// liveHeap returns the number of bytes that the last collection found in use.
func liveHeap() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
