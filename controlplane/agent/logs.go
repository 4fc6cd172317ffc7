package agent

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// logFormat makes Envoy's lines easy to take apart: level, logger, message.
const logFormat = "%l\t%n\t%v"

const maxLogLine = 16 << 10

var logLevels = map[string]slog.Level{
	"trace": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo,
	"warning": slog.LevelWarn, "error": slog.LevelError, "critical": slog.LevelError,
}

// logPipe carries Envoy's log lines into our log until Envoy has closed it.
type logPipe struct {
	log  *slog.Logger
	r, w *os.File
	done sync.WaitGroup
	// access is nil where standard output holds no access log.
	access *accessPipe
}

func (p *Process) pipeLogs(cmd *exec.Cmd) (*logPipe, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = w, w
	l := &logPipe{log: p.Log, r: r, w: w}
	if p.Access == nil {
		return l, nil
	}
	if l.access, err = newAccessPipe(p.Access, p.Log); err != nil {
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

// follow starts reading; the write end now belongs to Envoy alone.
func (l *logPipe) follow() {
	if l.access != nil {
		l.access.follow()
	}
	_ = l.w.Close()
	l.done.Go(func() {
		defer func() { _ = l.r.Close() }()
		copyLog(l.r, l.log)
	})
}

func (l *logPipe) wait() {
	l.done.Wait()
	if l.access != nil {
		l.access.wait()
	}
}

// copyLog logs each line of r at the level it carries, without credentials.
// Overlong lines are cut.
func copyLog(r io.Reader, log *slog.Logger) {
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
					level, source, text = lv, f[1], f[2]
				}
			}
			// A line without a level continues the one before.
			log.Log(context.Background(), level, "envoy: "+mask(text), "logger", source)
		}
		if err != nil {
			return
		}
	}
}
