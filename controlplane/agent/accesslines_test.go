package agent

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"
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
			copyLines(r, &out, slog.New(slog.DiscardHandler))
			if out.String() != test.want {
				t.Errorf("%s, %s: %.60q, want %.60q", name, way, out.String(), test.want)
			}
		}
	}
}

// stuck blocks all writes until it is released.
type stuck struct {
	free  chan struct{}
	lines bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.free
	return s.lines.Write(p)
}

// A reader that takes nothing does not block the copying: Envoy's output is always read.
func TestCopyLinesNeverWaits(t *testing.T) {
	r, w := io.Pipe()
	to := &stuck{free: make(chan struct{})}
	records := newRecorder()
	done := make(chan struct{})
	go func() { copyLines(r, to, slog.New(records)); close(done) }()
	for range 4 * accessChunks { // each is one read
		if _, err := w.Write([]byte("a\n")); err != nil {
			t.Fatal(err)
		}
	}
	records.wait(t, "left out, because its reader is too slow")
	close(to.free)
	_ = w.Close()
	<-done
	records.wait(t, "left out slow_reader=")
	if n := strings.Count(to.lines.String(), "a\n"); n < accessChunks || n >= 4*accessChunks {
		t.Errorf("%d lines came through", n)
	}
}

// A reader that has gone does not stop it either.
func TestCopyLinesWithoutReader(t *testing.T) {
	records := newRecorder()
	copyLines(strings.NewReader("a\nb\n"), iotestErr{}, slog.New(records))
	records.wait(t, "cannot be written")
}

type iotestErr struct{}

func (iotestErr) Write([]byte) (int, error) { return 0, errors.New("gone") }
