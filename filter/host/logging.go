package host

import (
	"bytes"
	"context"
	"log" //nolint:depguard // only to redirect what libraries write with it
	"log/slog"
	"sync"
)

// maxLogLine bounds one line in bytes; longer ones are cut.
const maxLogLine = 4 << 10

// Levels of Envoy's log (envoy_dynamic_module_type_log_level).
const (
	envoyTrace = iota
	envoyDebug
	envoyInfo
	envoyWarn
	envoyError
)

// envoyLevel maps a level of slog onto Envoy's.
func envoyLevel(l slog.Level) int {
	switch {
	case l < slog.LevelDebug:
		return envoyTrace
	case l < slog.LevelInfo:
		return envoyDebug
	case l < slog.LevelWarn:
		return envoyInfo
	case l < slog.LevelError:
		return envoyWarn
	default:
		return envoyError
	}
}

// Sink receives finished lines: Envoy's log, or a test. Levels are those of Envoy, from 0
// (trace) to 4 (error).
type Sink interface {
	Enabled(level int) bool
	Write(level int, line []byte)
}

// lines is the writer behind a text handler. It knows the level of the current record,
// because its lock is held around the handler.
type lines struct {
	mu    sync.Mutex
	level int
	out   Sink
}

// Write passes one formatted record on.
func (l *lines) Write(p []byte) (int, error) {
	line := bytes.TrimRight(p, "\n")
	if len(line) > maxLogLine {
		line = line[:maxLogLine]
	}
	l.out.Write(l.level, line)
	return len(p), nil
}

// handler is a slog.Handler that writes to Envoy's log. Envoy itself adds time and level.
type handler struct {
	lines *lines
	text  slog.Handler
}

// NewLogger returns a logger that writes to out.
func NewLogger(out Sink) *slog.Logger {
	l := &lines{out: out}
	drop := func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
			return slog.Attr{}
		}
		return a
	}
	text := slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.Level(-128), ReplaceAttr: drop})
	return slog.New(&handler{lines: l, text: text})
}

// Enabled asks Envoy, whose levels can be changed at run time.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	return h.lines.out.Enabled(envoyLevel(level))
}

// Handle writes one record.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	h.lines.mu.Lock()
	defer h.lines.mu.Unlock()
	h.lines.level = envoyLevel(r.Level)
	return h.text.Handle(ctx, r)
}

// WithAttrs returns a handler that adds attrs to every record.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{lines: h.lines, text: h.text.WithAttrs(attrs)}
}

// WithGroup returns a handler that qualifies later attributes with name.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{lines: h.lines, text: h.text.WithGroup(name)}
}

// captureStandardLog sends what libraries write with package log to logger. Otherwise it
// would go to Envoy's standard error, past its log levels.
func captureStandardLog(logger *slog.Logger) {
	std := slog.NewLogLogger(logger.Handler(), slog.LevelWarn)
	log.SetFlags(std.Flags())
	log.SetOutput(std.Writer())
}
