package framework

import (
	"bytes"
	"fmt"
	"sync"
)

// kept is how much of its output is remembered of a process. Some print gigabytes in a
// run of hours, and many are started.
const kept = 16 << 20

// shown is how much of an output a report shows. The reports of all processes of a long
// run are in memory together.
const shown = 256 << 10

// output keeps the last of what a process printed, and each line that tells of something
// unsound, however long ago it was printed.
type output struct {
	mu      sync.Mutex
	buf     []byte
	dropped int    // bytes that were printed before buf
	part    []byte // the line that is being printed
	unsound []string
	asked   bool // for its stacks: what it prints now is no defect
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keep(p)
	whole := bytes.LastIndexByte(p, '\n') + 1
	if whole > 0 {
		o.judge(append(o.part, p[:whole]...))
		o.part = o.part[:0]
	}
	o.part = append(o.part, p[whole:]...)
	return len(p), nil
}

// keep drops half of what is kept when it is full, so that not every line moves it.
func (o *output) keep(p []byte) {
	o.buf = append(o.buf, p...)
	if len(o.buf) <= kept {
		return
	}
	left := len(o.buf) - kept/2
	o.dropped += left
	o.buf = append(o.buf[:0], o.buf[left:]...)
}

func (o *output) judge(lines []byte) {
	if !o.asked {
		o.unsound = append(o.unsound, Unsound(string(lines))...)
	}
}

// String returns what is kept of what was printed.
func (o *output) String() string { return o.last(kept) }

// end returns what of it a report shows.
func (o *output) end() string { return o.last(shown) }

func (o *output) last(n int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	from := max(0, len(o.buf)-n)
	if before := o.dropped + from; before > 0 {
		return fmt.Sprintf("(%d bytes before)\n%s", before, o.buf[from:])
	}
	return string(o.buf)
}

// takeUnsound returns the unsound lines that were printed since it was last called. At the
// end of the process the last line counts, too, although nothing ended it.
func (o *output) takeUnsound(ended bool) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ended {
		o.judge(o.part)
		o.part = nil
	}
	found := o.unsound
	o.unsound = nil
	return found
}

// expectStacks says that the process is about to be asked for the stacks of its goroutines.
func (o *output) expectStacks() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = true
}
