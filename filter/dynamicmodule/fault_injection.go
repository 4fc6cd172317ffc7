//go:build faultinjection

package main

/*
#include <stdint.h>
*/
import "C"

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
)

// injectFault panics for requests that ask for it. It exists only in libraries built with
// the tag faultinjection. Tests use them to see what a fault in Go does to Envoy.
func injectFault(path []byte) {
	switch {
	case bytes.HasPrefix(path, []byte("/fault/panic")):
		panic("injected")
	case bytes.HasPrefix(path, []byte("/fault/index")):
		_ = path[len(path):][0]
	case bytes.HasPrefix(path, []byte("/fault/nil")):
		var p *request
		p.headers++
	case bytes.HasPrefix(path, []byte("/fault/stderr")):
		// A library might do this. The result does not matter.
		_, _ = os.Stderr.WriteString("injected\n")
	case bytes.HasPrefix(path, []byte("/fault/memory")):
		fmt.Fprintf(os.Stderr, "injected: %d bytes in use\n", inUse())
	}
}

// inUse returns how many bytes the Go heap and the stacks hold without garbage.
func inUse() uint64 {
	runtime.GC()
	runtime.GC() // collects what the cleanups of the first one released
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc + s.StackInuse
}

// meshgateMallocs returns how many Go objects were ever made.
//
//export meshgateMallocs
func meshgateMallocs() C.uint64_t {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return C.uint64_t(s.Mallocs)
}
