package host

import (
	"log" //nolint:depguard // it is what libraries write with
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/host/hosttest"
)

// restoreProcess undoes Prepare after a test.
func restoreProcess(t *testing.T) {
	restoreGC(t)
	procs, stack, flags := runtime.GOMAXPROCS(0), debug.SetMaxStack(1<<30), log.Flags()
	t.Cleanup(func() {
		signal.Reset(syscall.SIGPIPE)
		runtime.GOMAXPROCS(procs)
		debug.SetMaxStack(stack)
		log.SetFlags(flags)
		log.SetOutput(os.Stderr)
	})
}

func TestPrepare(t *testing.T) {
	restoreProcess(t)
	said := &hosttest.Log{}
	h := New(NewLogger(said), nil)
	getenv := func(name string) string { return map[string]string{"GOGC": "100"}[name] }
	for procs, want := range map[int]int{0: minProcs, minProcs + 3: minProcs + 3} {
		Prepare(h, procs, getenv)
		if got := runtime.GOMAXPROCS(0); got != want {
			t.Errorf("%d are wanted: %d goroutines run at a time, not %d", procs, got, want)
		}
	}
	if !signal.Ignored(syscall.SIGPIPE) {
		t.Error("a pipe without a reader ends the process")
	}
	if got := debug.SetMaxStack(maxStack); got != maxStack {
		t.Errorf("a stack may have %d bytes", got)
	}
	log.Print("of a library")
	if !strings.Contains(said.Text(), "of a library") {
		t.Errorf("the log has %q", said.Text())
	}
}

// TestRemembers: an operator forbids that verdicts are kept, and a mistake does so, too.
func TestRemembers(t *testing.T) {
	for value, want := range map[string]bool{"": true, "true": true, "false": false, "off": false, "False": false} {
		said := &hosttest.Log{}
		h := New(NewLogger(said), nil)
		getenv := func(name string) string { return map[string]string{contract.RememberEnv: value}[name] }
		if got := h.Remembers(getenv); got != want {
			t.Errorf("%q: %t", value, got)
		}
		if told := strings.Contains(said.Text(), contract.RememberEnv); told != (value == "off" || value == "False") {
			t.Errorf("%q: the log has %q", value, said.Text())
		}
	}
}
