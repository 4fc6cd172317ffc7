//go:build faultinjection

package main

/*
#include <stdint.h>
*/
import "C"

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
)

// injectFault panics for requests that ask for it. Only libraries built with
// the tag faultinjection contain it, which tests build to see what a fault in Go
// does to Envoy.
func injectFault(path []byte) {
	switch {
	case bytes.HasPrefix(path, []byte("/fault/panic")):
		panic("injected")
	case bytes.HasPrefix(path, []byte("/fault/index")):
		_ = path[len(path):][0]
	case bytes.HasPrefix(path, []byte("/fault/nil")):
		var p *source
		p.refs++
	case bytes.HasPrefix(path, []byte("/fault/stderr")):
		// What a library might do; the outcome is of no interest.
		_, _ = os.Stderr.WriteString("injected\n")
	}
}

// collectionPercent is GOGC of the environment, if that is set: what is freed too
// early, or kept in a place that the collector does not look at, shows sooner the
// more often it runs.
func collectionPercent() int {
	if n, err := strconv.Atoi(os.Getenv("GOGC")); err == nil {
		return n
	}
	return gcPercent
}

// meshgateMallocs tells the host of a test how many Go objects were ever made.
//
//export meshgateMallocs
func meshgateMallocs() C.uint64_t {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return C.uint64_t(s.Mallocs)
}
