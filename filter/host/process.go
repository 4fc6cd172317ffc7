package host

import (
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/meshgate/meshgate/filter/contract"
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

// Remembers says whether the operator lets an adapter keep verdicts that [Host.Prove] has
// proven. What cannot be understood forbids it: a verdict that is not kept is made again.
func (h *Host) Remembers(getenv func(string) string) bool {
	switch v := getenv(contract.RememberEnv); v {
	case "", "true":
		return true
	case "false":
		return false
	default:
		h.log.Error("verdicts are not remembered: the variable is neither true nor false", "variable", contract.RememberEnv, "value", v)
		return false
	}
}
