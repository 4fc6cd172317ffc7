package config

import (
	"context"
	"log/slog"
	"testing"
)

func TestLogger(t *testing.T) {
	for _, test := range []struct {
		level string
		want  slog.Level
	}{{"debug", slog.LevelDebug}, {"info", slog.LevelInfo}, {"warn", slog.LevelWarn}, {"error", slog.LevelError}} {
		for _, format := range []string{"text", "json"} {
			log := Log{Level: test.level, Format: format}.Logger()
			if !log.Enabled(context.Background(), test.want) || log.Enabled(context.Background(), test.want-1) {
				t.Errorf("%s %s: does not begin at %s", format, test.level, test.want)
			}
			if _, json := log.Handler().(*slog.JSONHandler); json != (format == "json") {
				t.Errorf("%s: %T", format, log.Handler())
			}
		}
	}
}
