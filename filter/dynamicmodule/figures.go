package main

/*
#include "front.h"
*/
import "C"

import (
	"unsafe"

	"github.com/meshgate/meshgate/filter/host"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// figures adds up the counters of the token caches, in the order of front.h. It runs on a
// worker, which must not wait: while configurations change it returns false.
func figures(h *host.Host, out []uint64) bool {
	defer h.Recovered("figures")
	return h.EachStats(func(s *tokencache.Stats) {
		for i, n := range figuresOf(s) {
			if i == C.FRONT_FIGURE_LEASE_AGE {
				out[i] = max(out[i], n)
			} else {
				out[i] += n
			}
		}
	})
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

//export meshgateFigures
func meshgateFigures(out *C.uint64_t) C.bool {
	return C.bool(figures(library, unsafe.Slice((*uint64)(unsafe.Pointer(out)), C.FRONT_FIGURES)))
}
