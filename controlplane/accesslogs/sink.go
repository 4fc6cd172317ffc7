package accesslogs

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/meshgate/meshgate/xds/logsink"
)

const (
	// maxQueue bounds what waits for a sink in bytes, and maxWrite what is written at once.
	maxQueue = 1 << 20
	maxWrite = 64 << 10
	// minPause and maxPause bound the pauses between attempts at a sink that fails.
	minPause = 250 * time.Millisecond
	maxPause = 15 * time.Second
	// steady is how long an output has to work before it counts as well: a server that accepts
	// connections and closes them at once is not asked again and again without a pause.
	steady = 5 * time.Second
	// lastWrites bounds how long a sink that ends still writes.
	lastWrites = 2 * time.Second
)

// output is where a sink writes. Only the goroutine of the sink uses it.
type output interface {
	// write writes lines, opening what has to be opened. It returns how many bytes need not be
	// written again.
	write(ctx context.Context, lines []byte) (n int, err error)
	// standing returns what is wrong although everything is written.
	standing() error
	close()
}

// sink is a queue of lines and the goroutine that writes them.
type sink struct {
	what logsink.Sink
	out  output
	log  *slog.Logger
	// changed is called when the problem begins or ends.
	changed func()
	// running says that its goroutine was started; the receiver guards it.
	running bool
	// crowded says that it has lines and too many others run; the receiver guards it.
	crowded bool
	// wake has an entry when there is something to do.
	wake chan struct{}
	// ended is done when the sink has to end.
	ended context.Context
	end   context.CancelFunc

	mu    sync.Mutex
	queue []byte
	// over says that nothing is written any more.
	over bool
	// lost counts dropped lines since the trouble began.
	lost uint64
	// problem is why the last write failed, nil if it did not.
	problem error
}

func newSink(what logsink.Sink, out output, o *Options) *sink {
	s := &sink{what: what, out: out, log: o.Log, changed: o.Changed, wake: make(chan struct{}, 1)}
	s.ended, s.end = context.WithCancel(context.Background())
	return s
}

// put queues a line, or drops it if the queue is full. It returns false if the sink has ended.
func (s *sink) put(line []byte) bool {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return false
	}
	full := len(s.queue)+len(line) > maxQueue
	first := full && s.lost == 0
	if full {
		s.lost++
	} else {
		s.queue = append(s.queue, line...)
	}
	s.mu.Unlock()
	if first {
		s.changed()
	}
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
	}
	return true
}

// run writes until the sink ends.
func (s *sink) run() {
	defer s.out.close()
	pause, failed := minPause, time.Time{}
	for {
		select {
		case <-s.wake:
		case <-s.ended.Done():
			s.last(true)
			return
		}
		for s.flush(s.ended) != nil {
			if time.Since(failed) > pause+steady {
				pause = minPause
			} else {
				pause = min(2*pause, maxPause)
			}
			failed = time.Now()
			t := time.NewTimer(pause)
			select {
			case <-t.C:
			case <-s.ended.Done():
				t.Stop()
				s.last(false)
				return
			}
		}
	}
}

// last writes what is left, if the last write did not fail, and says what was dropped.
func (s *sink) last(works bool) {
	if works {
		ctx, cancel := context.WithTimeout(context.Background(), lastWrites)
		defer cancel()
		_ = s.flush(ctx) // what it leaves is counted
	}
	s.mu.Lock()
	s.over = true
	lost := s.lost + uint64(bytes.Count(s.queue, []byte{'\n'})) //nolint:gosec // not negative
	s.queue, s.lost = nil, 0
	s.mu.Unlock()
	if lost > 0 {
		s.log.Warn("lines of an access log were dropped, because its sink has ended", "sink", s.what.String(), "lines", lost)
	}
}

// flush writes the whole queue.
func (s *sink) flush(ctx context.Context) error {
	for {
		s.mu.Lock()
		batch := bytes.Clone(s.queue[:boundary(s.queue, maxWrite)])
		s.mu.Unlock()
		if len(batch) == 0 {
			s.settle(s.out.standing())
			return nil
		}
		n, err := s.out.write(ctx, batch)
		s.mu.Lock()
		if s.queue = s.queue[n:]; len(s.queue) == 0 {
			s.queue = nil // its array may be large
		}
		s.mu.Unlock()
		if err != nil {
			if ctx.Err() == nil {
				s.settle(err)
			}
			return err
		}
	}
}

// boundary returns the length of the whole lines at the beginning of some lines that fit into a
// limit, and of one line at least.
func boundary(lines []byte, limit int) int {
	if len(lines) <= limit {
		return len(lines)
	}
	if i := bytes.LastIndexByte(lines[:limit], '\n'); i >= 0 {
		return i + 1
	}
	return bytes.IndexByte(lines, '\n') + 1
}

// settle notes how the last write ended. If it did not fail, the queue is empty and nothing is
// lost any more.
func (s *sink) settle(err error) {
	s.mu.Lock()
	lost := s.lost
	moved := (err == nil) != (s.problem == nil) || err == nil && lost > 0
	s.problem = err
	if len(s.queue) == 0 {
		s.lost = 0
	} else {
		lost = 0
	}
	s.mu.Unlock()
	if lost > 0 {
		s.log.Warn("lines of an access log were dropped", "sink", s.what.String(), "lines", lost)
	}
	if moved {
		s.changed()
	}
}

// state returns what is wrong with the sink, and how many lines were dropped since that began.
func (s *sink) state() (lost uint64, problem error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost, s.problem
}
