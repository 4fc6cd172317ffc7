package host

import (
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
)

const (
	// minProcs keeps an entry from a worker from waiting for a P while goroutines are busy.
	minProcs = 4
	// maxStack ends a runaway recursion before it exhausts the memory of the machine.
	maxStack = 64 << 20
)

// Prepare makes the Go runtime of this process a guest of Envoy. Every library that Envoy
// loads calls it once, before it decides anything. procs is how many goroutines the adapter
// wants to run at a time; there are never fewer than four. getenv reads the environment: the
// operator's GOGC is obeyed.
func Prepare(h *Host, procs int, getenv func(string) string) {
	// Envoy ignores SIGPIPE, but Go would end the process on it when standard error has no
	// reader any more.
	signal.Ignore(syscall.SIGPIPE)
	runtime.GOMAXPROCS(max(minProcs, procs))
	boundGarbage(h, getenv)
	debug.SetMaxStack(maxStack)
	captureStandardLog(h.Log())
}
