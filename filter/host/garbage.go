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
	// gcSpare is how much garbage may lie around in bytes. A share of the heap alone
	// would let a full first level of 256 MiB have a gibibyte of it.
	gcSpare = 192 << 20
	// leastPercent keeps collections apart when the heap is larger than anybody
	// thought: each one looks at all of it but the bytes of the first level.
	leastPercent = 10
)

// garbage bounds what the Go heap occupies beside what is in use. It looks again
// after every collection, because what is in use is not known beforehand: the
// sizes of the token caches change with their settings, a draining listener has a
// cache of its own, and route tables bring programs. A fixed limit would be too
// low one day, and the runtime would then collect without end.
type garbage struct {
	host    *Host
	percent atomic.Int64
	ended   atomic.Bool
}

// BoundGarbage sets how often the heap of this process is collected, unless the environment
// says it in GOGC, the variable of every Go program. GOMEMLIMIT needs nothing here: the
// runtime obeys both bounds.
func BoundGarbage(h *Host, getenv func(string) string) { boundGarbage(h, getenv) }

// boundGarbage returns nil if the environment bounds the garbage.
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

// cycle is an object that nobody uses: that it is gone says that there was a
// collection. It holds a pointer, for objects without one share their memory with
// others and may stay.
type cycle struct{ _ *byte }

// watch has the next collection call adapt.
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

// adapt sets the share of garbage for what is in use. Setting it stops all
// goroutines for a moment, so small differences are let be.
func (g *garbage) adapt(live uint64) {
	next, last := int64(percentFor(live)), g.percent.Load()
	if d := next - last; d*d*100 > last*last { // by more than a tenth
		g.percent.Store(next)
		debug.SetGCPercent(int(next))
	}
}

// end leaves the heap to itself; for tests.
func (g *garbage) end() { g.ended.Store(true) }

// percentFor is the share of garbage that comes to gcSpare.
func percentFor(live uint64) int {
	if live < gcSpare*100/gcPercent {
		return gcPercent
	}
	return max(leastPercent, int(gcSpare*100/live))
}

// liveHeap is how many bytes the last collection found in use.
func liveHeap() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
