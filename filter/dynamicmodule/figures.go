package main

/*
#include "front.h"
*/
import "C"

import (
	"unsafe"

	"github.com/meshgate/meshgate/filter/tokencache"
)

// figures writes what the token caches have counted, in the order of front.h. It
// runs on a worker, which waits for nobody: while configurations change there are
// none.
func (m *module) figures(out []uint64) (ok bool) {
	defer m.recovered("figures")
	if !m.mu.TryLock() {
		return false
	}
	defer m.mu.Unlock()
	for _, h := range m.sourceOf {
		s, ok := m.sources.get(h).tokens.stats()
		if !ok {
			continue
		}
		for i, n := range figuresOf(&s) {
			if i == C.FRONT_FIGURE_LEASE_AGE {
				out[i] = max(out[i], n)
			} else {
				out[i] += n
			}
		}
	}
	return true
}

func figuresOf(s *tokencache.Stats) [C.FRONT_FIGURES]uint64 {
	flag := func(b bool) uint64 {
		if b {
			return 1
		}
		return 0
	}
	return [C.FRONT_FIGURES]uint64{
		s.Hits, s.NegativeHits, s.Misses, s.Bypassed, s.Evictions, s.L2Hits, s.L2Errors, s.L2Skipped, s.L2Untrusted,
		s.Introspections, s.IntrospectionErrors, s.Rejected, s.StaleServed,
		flag(s.Linked), flag(s.Leased), uint64(max(s.LeaseAge.Milliseconds(), 0)),
	}
}

// stats are those of the cache, once it is open.
func (l *lateCache) stats() (s tokencache.Stats, ok bool) {
	c := l.cache.Load()
	if c == nil {
		return s, false
	}
	counting, ok := (*c).(interface{ Stats() tokencache.Stats })
	if !ok {
		return s, false
	}
	return counting.Stats(), true
}

//export meshgateFigures
func meshgateFigures(out *C.uint64_t) C.bool {
	return C.bool(library.figures(unsafe.Slice((*uint64)(unsafe.Pointer(out)), C.FRONT_FIGURES)))
}
