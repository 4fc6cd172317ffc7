package framework

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/onsi/ginkgo/v2"
)

// unsound matches what a process of this project, or an Envoy that it supervises,
// prints when something in it has gone wrong for which a user has no error: a
// panic, recovered or not, a race, a crash. The stack of a recovered panic is a
// quoted part of a line, and that of any goroutine.
var unsound = regexp.MustCompile(`panic recovered|panicked|panic=|panic: |fatal error: |goroutine \d+ \[|WARNING: DATA RACE|` +
	`Caught (Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception)`)

// watched are the processes that run.
var watched struct {
	sync.Mutex
	processes map[*Process]bool
}

func watch(p *Process) {
	watched.Lock()
	defer watched.Unlock()
	if watched.processes == nil {
		watched.processes = map[*Process]bool{}
	}
	watched.processes[p] = true
}

// ExpectSound fails the spec if a process that runs has printed the marks of a
// panic or a crash since it was last asked. Suites call it after each spec, so
// that the spec which caused it is the one that fails; at the end of every process
// it happens by itself.
func ExpectSound() {
	watched.Lock()
	var problems []string
	for p := range watched.processes {
		problems = append(problems, p.unsound(false)...)
	}
	watched.Unlock()
	report(problems)
}

// expectEndedSound looks at the rest of what a process has printed that has ended.
func expectEndedSound(p *Process) {
	watched.Lock()
	delete(watched.processes, p)
	watched.Unlock()
	report(p.unsound(true))
}

func report(problems []string) {
	if len(problems) > 0 {
		ginkgo.Fail("a panic or a crash:\n"+strings.Join(problems, "\n"), 2)
	}
}

// unsound returns what the process has printed of the kind since it was last asked, each
// line with the name of who printed it.
func (p *Process) unsound(ended bool) []string {
	found := p.output.takeUnsound(ended)
	for i, line := range found {
		found[i] = fmt.Sprintf("%s: %s", p.cmd.Path, line)
	}
	return found
}

// Unsound returns the lines of an output that tell of a panic or a crash.
func Unsound(output string) []string {
	var found []string
	for line := range strings.Lines(output) {
		if unsound.MatchString(line) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}
