package telemetry

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
)

// Log is a handler that counts log records by level.
type Log struct {
	slog.Handler
	counts *logCounts
}

type logCounts struct {
	records                  *prometheus.CounterVec
	debug, info, warn, error prometheus.Counter
}

// NewLog returns a Log around another handler.
func NewLog(h slog.Handler) *Log {
	v := counters("log_records_total", "Lines of the log, by level.", "level")
	return &Log{h, &logCounts{v, v.WithLabelValues("debug"), v.WithLabelValues("info"), v.WithLabelValues("warn"), v.WithLabelValues("error")}}
}

// Handle implements slog.Handler.
func (l *Log) Handle(ctx context.Context, r slog.Record) error {
	switch {
	case r.Level >= slog.LevelError:
		l.counts.error.Inc()
	case r.Level >= slog.LevelWarn:
		l.counts.warn.Inc()
	case r.Level >= slog.LevelInfo:
		l.counts.info.Inc()
	default:
		l.counts.debug.Inc()
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l *Log) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Log{l.Handler.WithAttrs(attrs), l.counts}
}

// WithGroup implements slog.Handler.
func (l *Log) WithGroup(name string) slog.Handler { return &Log{l.Handler.WithGroup(name), l.counts} }

// Collectors lists the metrics.
func (l *Log) Collectors() []prometheus.Collector { return []prometheus.Collector{l.counts.records} }
