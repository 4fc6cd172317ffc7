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

// watched are the processes that run, with how much of their output has been
// looked at.
var watched struct {
	sync.Mutex
	seen map[*Process]int
}

func watch(p *Process) {
	watched.Lock()
	defer watched.Unlock()
	if watched.seen == nil {
		watched.seen = map[*Process]int{}
	}
	watched.seen[p] = 0
}

// ExpectSound fails the spec if a process that runs has printed the marks of a
// panic or a crash since it was last asked. Suites call it after each spec, so
// that the spec which caused it is the one that fails; at the end of every process
// it happens by itself.
func ExpectSound() {
	watched.Lock()
	var problems []string
	for p := range watched.seen {
		problems = append(problems, look(p)...)
	}
	watched.Unlock()
	report(problems)
}

// expectEndedSound looks at the rest of what a process has printed that has ended.
func expectEndedSound(p *Process) {
	watched.Lock()
	problems := look(p)
	delete(watched.seen, p)
	watched.Unlock()
	report(problems)
}

func report(problems []string) {
	if len(problems) > 0 {
		ginkgo.Fail("a panic or a crash:\n"+strings.Join(problems, "\n"), 2)
	}
}

// look returns the lines of new output that tell of something unsound. Only whole
// lines count as seen. The caller holds the lock.
func look(p *Process) []string {
	fresh := p.output.from(watched.seen[p])
	whole := strings.LastIndexByte(fresh, '\n') + 1
	watched.seen[p] += whole
	if p.asked.Load() { // for its stacks, by Stop
		return nil
	}
	return Unsound(p.cmd.Path, fresh)
}

// Unsound returns the lines of an output that tell of a panic or a crash, each
// with the name of who printed it.
func Unsound(name, output string) []string {
	var found []string
	for line := range strings.Lines(output) {
		if unsound.MatchString(line) {
			found = append(found, fmt.Sprintf("%s: %s", name, strings.TrimSpace(line)))
		}
	}
	return found
}
