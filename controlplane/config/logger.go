package config

import (
	"log/slog"
	"os"
)

// Logger returns the logger of the program, which writes to standard error.
func (l Log) Logger() *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(l.Level)) // the level was checked with the configuration
	o := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, o))
}
