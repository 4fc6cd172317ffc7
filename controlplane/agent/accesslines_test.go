package agent

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// TestCopyLines: lines come out as they went in, however reads cut them.
func TestCopyLines(t *testing.T) {
	long := strings.Repeat("x", 2*maxAccessLine+5)
	for name, test := range map[string]struct{ in, want string }{
		"nothing":             {"", ""},
		"lines":               {"{\"a\":1}\n{\"b\":2}\n", "{\"a\":1}\n{\"b\":2}\n"},
		"no end":              {"a\nb", "a\nb\n"},
		"overlong":            {"a\n" + long + "\nb\n", "a\nb\n"},
		"overlong at the end": {"a\n" + long, "a\n"},
		"overlong at once":    {long + "\nb\n", "b\n"},
	} {
		for way, r := range map[string]io.Reader{"at once": strings.NewReader(test.in), "in halves": iotest.HalfReader(strings.NewReader(test.in)), "by bytes": iotest.OneByteReader(strings.NewReader(test.in))} {
			if way == "by bytes" && len(test.in) > 1000 {
				continue
			}
			var out bytes.Buffer
			to := &accessWriter{log: slog.New(slog.DiscardHandler), to: &out}
			copyLines(r, to)
			if !to.flush(patience) {
				t.Fatal("it is not written")
			}
			if out.String() != test.want {
				t.Errorf("%s, %s: %.60q, want %.60q", name, way, out.String(), test.want)
			}
		}
	}
}

// stuck blocks all writes until it is released.
type stuck struct {
	free <-chan struct{}
	to   io.Writer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.free
	return s.to.Write(p)
}

// A reader that takes nothing does not block the copying: Envoy's output is always read. However
// many Envoys come and go meanwhile, they share one queue.
func TestCopyLinesNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free, records := make(chan struct{}), newRecorder()
		var out bytes.Buffer
		to := &accessWriter{log: slog.New(records), to: &stuck{free, &out}}
		const envoys = 5
		began := time.Now()
		for range envoys {
			copyLines(iotest.OneByteReader(strings.NewReader(strings.Repeat("a\n", accessChunks))), to)
			if to.flush(accessPatience) {
				t.Error("it is written")
			}
		}
		if took := time.Since(began); took != envoys*accessPatience {
			t.Errorf("waited %v", took)
		}
		if len(to.queue) != accessChunks {
			t.Errorf("%d chunks wait", len(to.queue))
		}
		records.wait(t, "left out, because its reader is too slow")
		records.wait(t, "were left out slow_reader=")
		close(free)
		synctest.Wait()
		if n := strings.Count(out.String(), "a\n"); n != accessChunks+1 { // one was being written
			t.Errorf("%d lines came through", n)
		}
	})
}

// TestFailedWriteIsNoEnd: lines that cannot be written are left out and counted, and the next ones
// are written when they can. A line that was begun spoils none after it.
func TestFailedWriteIsNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := newRecorder()
		disk := &fullDisk{room: len("first\nsec")}
		to := &accessWriter{log: slog.New(records), to: disk}
		for _, lines := range []string{"first\n", "second\nthird\n", "fourth\n"} {
			to.put([]byte(lines))
			synctest.Wait()
		}
		disk.room = 1000
		to.put([]byte("fifth\n"))
		synctest.Wait()
		if got := disk.lines.String(); got != "first\nsec\nfifth\n" {
			t.Errorf("written: %q", got)
		}
		records.wait(t, "cannot be written, its lines are left out")
		records.wait(t, "were left out slow_reader=0 cannot_be_written=3")
	})
}

// fullDisk takes some bytes, and nothing after them.
type fullDisk struct {
	room  int
	lines bytes.Buffer
}

func (d *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.room)
	d.room -= n
	d.lines.Write(p[:n])
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}
