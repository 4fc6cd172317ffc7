package agent

import (
	"bytes"
	"io"
	"os"
	"time"
)

const (
	// maxAccessLine bounds one line of the access log in bytes. A longer line is left out.
	maxAccessLine = 64 << 10
	// accessChunks bounds what waits for the reader of this process's standard output.
	// Envoy keeps what it cannot write in memory, without a limit. So the agent always
	// reads it, and leaves out and counts the lines that it cannot pass on.
	accessChunks = 64
	// accessPatience is how long the end of a proxy waits for that reader.
	accessPatience = 2 * time.Second
)

// accessPipe copies Envoy's standard output, which is the access log, to this process's
// standard output, line by line and unchanged.
type accessPipe struct {
	to   *accessWriter
	r, w *os.File
	done chan struct{}
}

func newAccessPipe(to *accessWriter) (*accessPipe, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &accessPipe{to: to, r: r, w: w, done: make(chan struct{})}, nil
}

func (a *accessPipe) abandon() {
	_ = a.w.Close()
	_ = a.r.Close()
}

// follow starts reading. The write end now belongs to Envoy alone.
func (a *accessPipe) follow() {
	_ = a.w.Close()
	go func() {
		defer close(a.done)
		defer func() { _ = a.r.Close() }()
		copyLines(a.r, a.to)
	}()
}

// wait returns when everything is written, or when accessPatience is over, for Envoy's lines and
// for their reader.
func (a *accessPipe) wait() {
	t := time.NewTimer(accessPatience)
	defer t.Stop()
	select {
	case <-a.done:
	case <-t.C:
		a.to.log.Warn("the access log has no end yet, its last lines may be lost")
	}
	if !a.to.flush(accessPatience) {
		a.to.log.Warn("nobody reads the access log, its last lines may be lost")
	}
}

// copyLines copies whole lines. It reads as fast as it can, even if nobody takes them.
func copyLines(r io.Reader, to *accessWriter) {
	var s splitter
	for {
		lines, err := s.next(r)
		if len(lines) > 0 {
			to.put(lines)
		}
		if err != nil {
			break
		}
	}
	if s.dropped > 0 {
		to.log.Warn("lines of the access log were left out, because they were too long", "lines", s.dropped)
	}
}

// splitter cuts a stream into pieces of whole lines.
type splitter struct {
	rest []byte
	// skip says that the rest of an overlong line is being skipped.
	skip    bool
	dropped int
}

// next reads once and returns the complete lines. At the end of the stream, a last line
// without a line end counts as complete.
func (s *splitter) next(r io.Reader) (lines []byte, err error) {
	buf := make([]byte, len(s.rest)+maxAccessLine)
	n := copy(buf, s.rest)
	m, err := r.Read(buf[n:])
	buf, s.rest = buf[:n+m], nil
	if s.skip {
		i := bytes.IndexByte(buf, '\n')
		if i < 0 {
			return nil, err
		}
		buf, s.skip = buf[i+1:], false
	}
	end := bytes.LastIndexByte(buf, '\n') + 1
	if err != nil && end < len(buf) {
		buf = append(buf, '\n')
		end = len(buf)
	}
	if len(buf)-end > maxAccessLine {
		s.skip = true
		s.dropped++
	} else {
		s.rest = bytes.Clone(buf[end:])
	}
	return buf[:end], err
}
