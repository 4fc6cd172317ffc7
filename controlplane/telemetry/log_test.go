package telemetry

import (
	"log/slog"
	"testing"
)

// TestLogCounts: lines that are written are counted, including those of derived loggers.
func TestLogCounts(t *testing.T) {
	l := NewLog(slog.DiscardHandler)
	log := slog.New(&Log{slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}), l.counts})
	log.Debug("not written")
	log.Info("one")
	log.With("a", 1).WithGroup("g").Warn("two")
	log.Error("three")
	for level, want := range map[string]float64{"debug": 0, "info": 1, "warn": 1, "error": 1} {
		if got := read(t, l.counts.records.WithLabelValues(level)).Counter.GetValue(); got != want {
			t.Errorf("%s: %v, want %v", level, got, want)
		}
	}
}
