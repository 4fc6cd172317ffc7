package agent

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"time"
)

// accessWriter writes the access log to this process's standard output. One Envoy after the other
// uses the same, so that a reader who takes nothing costs one goroutine and one queue, no matter
// how often Envoy is started. A write that fails is the end of its lines only: a disk that is full
// has room again later.
type accessWriter struct {
	log *slog.Logger
	to  io.Writer

	mu sync.Mutex
	// queue are chunks of whole lines, at most accessChunks.
	queue [][]byte
	// idle is closed when nothing is left to write; nil if nothing is being written.
	idle chan struct{}
	// slow and failed count the lines that were left out, because the queue was full or because
	// a write failed, since they were last reported.
	slow, failed int
	// failing says that the latest write failed.
	failing bool

	// torn says that a line was begun and not ended. Only run uses it.
	torn bool
}

// put queues whole lines, or leaves them out.
func (a *accessWriter) put(lines []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) >= accessChunks {
		if a.slow == 0 {
			a.log.Warn("lines of the access log are left out, because its reader is too slow")
		}
		a.slow += bytes.Count(lines, []byte{'\n'})
		return
	}
	a.queue = append(a.queue, lines)
	if a.idle == nil {
		a.idle = make(chan struct{})
		go a.run()
	}
}

// run writes until nothing is left.
func (a *accessWriter) run() {
	for {
		lines, ok := a.next()
		if !ok {
			return
		}
		if a.torn {
			if _, err := a.to.Write([]byte{'\n'}); err != nil {
				a.wrote(lines, err)
				continue
			}
			a.torn = false
		}
		n, err := a.to.Write(lines)
		a.torn = n > 0 && lines[n-1] != '\n'
		a.wrote(lines[n:], err)
	}
}

// next returns what is to be written next. If nothing is, it reports what was left out meanwhile.
func (a *accessWriter) next() (lines []byte, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) == 0 {
		if a.slow+a.failed > 0 && !a.failing {
			a.report()
		}
		close(a.idle)
		a.idle = nil
		return nil, false
	}
	lines = a.queue[0]
	a.queue[0] = nil
	a.queue = a.queue[1:]
	return lines, true
}

// wrote notes how a write ended, and what it left out.
func (a *accessWriter) wrote(left []byte, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil && !a.failing {
		a.log.Warn("the access log cannot be written, its lines are left out until it can", "error", err)
	}
	if a.failing = err != nil; a.failing {
		a.failed += bytes.Count(left, []byte{'\n'})
	}
}

// report logs what was left out. The caller holds mu.
func (a *accessWriter) report() {
	a.log.Warn("lines of the access log were left out", "slow_reader", a.slow, "cannot_be_written", a.failed)
	a.slow, a.failed = 0, 0
}

// flush waits until everything is written, and returns false when the time is over. What cannot
// be written at all is reported then.
func (a *accessWriter) flush(within time.Duration) bool {
	a.mu.Lock()
	idle := a.idle
	a.mu.Unlock()
	written := idle == nil
	if !written {
		t := time.NewTimer(within)
		defer t.Stop()
		select {
		case <-idle:
			written = true
		case <-t.C:
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slow+a.failed > 0 {
		a.report()
	}
	return written
}
