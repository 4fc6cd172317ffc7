package agent

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
)

// logFormat makes Envoy's lines easy to parse: level, logger, message. Line breaks in the message
// are escaped: it may quote what a client or a tenant wrote, which must not pass for a line with a
// level and a logger of its own.
const logFormat = "%l\t%n\t%_"

// lineBreak is how Envoy escapes a line break, which %_ does and nothing else.
const lineBreak = `\n`

const maxLogLine = 16 << 10

var logLevels = map[string]slog.Level{
	"trace": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo,
	"warning": slog.LevelWarn, "error": slog.LevelError, "critical": slog.LevelError,
}

// logPipe copies Envoy's log lines into this process's log until Envoy closes the pipe.
type logPipe struct {
	log *slog.Logger
	// ending reports whether Envoy was told to end.
	ending func() bool
	r, w   *os.File
	done   sync.WaitGroup
	// access is nil if standard output holds no access log.
	access *accessPipe
}

func (p *Process) pipeLogs(cmd *exec.Cmd) (*logPipe, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = w, w
	l := &logPipe{log: p.Log, ending: p.ending.Load, r: r, w: w}
	if p.Access == nil {
		return l, nil
	}
	if l.access, err = newAccessPipe(p.accessWriter()); err != nil {
		l.abandon()
		return nil, err
	}
	cmd.Stdout = l.access.w
	return l, nil
}

func (l *logPipe) abandon() {
	_ = l.w.Close()
	_ = l.r.Close()
	if l.access != nil {
		l.access.abandon()
	}
}

// follow starts reading. The write end now belongs to Envoy alone.
func (l *logPipe) follow() {
	if l.access != nil {
		l.access.follow()
	}
	_ = l.w.Close()
	l.done.Go(func() {
		defer func() { _ = l.r.Close() }()
		copyLog(l.r, l.log, l.ending)
	})
}

func (l *logPipe) wait() {
	l.done.Wait()
	if l.access != nil {
		l.access.wait()
	}
}

// expected are the beginnings of warnings that Envoy logs when it is told to end: about the
// signal, and about the end of its configuration stream. An operator who stops a proxy and
// sees warnings in the last lines would take a clean end for a failure.
var expected = []string{"caught ENVOY_SIGTERM", "DeltaAggregatedResources gRPC config stream to "}

// levelOf returns the level at which a line of Envoy is logged.
func levelOf(level slog.Level, text string, ending func() bool) slog.Level {
	begins := func(with string) bool { return strings.HasPrefix(text, with) }
	if level == slog.LevelWarn && ending() && slices.ContainsFunc(expected, begins) {
		return slog.LevelInfo
	}
	return level
}

// copyLog logs each line of r at the level that it states, with credentials masked, and those of
// a message with line breaks at the level of that message. Overlong lines are cut.
func copyLog(r io.Reader, log *slog.Logger, ending func() bool) {
	b := bufio.NewReaderSize(r, maxLogLine)
	level, source := slog.LevelInfo, "envoy"
	for {
		line, err := b.ReadSlice('\n')
		text := strings.TrimRight(string(line), "\n")
		for err == bufio.ErrBufferFull { //nolint:errorlint // ReadSlice returns it bare
			_, err = b.ReadSlice('\n')
		}
		if text != "" {
			if f := strings.SplitN(text, "\t", 3); len(f) == 3 {
				if lv, ok := logLevels[f[0]]; ok {
					level, source, text = levelOf(lv, f[2], ending), f[1], f[2]
				}
			}
			// A line without a level continues the line before it: Envoy's logger did not write it.
			for part := range strings.SplitSeq(text, lineBreak) {
				if part != "" {
					log.Log(context.Background(), level, "envoy: "+mask(part), "logger", source)
				}
			}
		}
		if err != nil {
			return
		}
	}
}
