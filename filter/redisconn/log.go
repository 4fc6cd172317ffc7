package redisconn

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Logger receives what the library would print.
type Logger interface {
	Printf(ctx context.Context, format string, args ...any)
}

var logOnce sync.Once

// LogTo sets where the library reports, for the whole process. By default the library is
// silent: inside Envoy a write to a pipe without a reader is fatal, and callers report the
// errors anyway.
func LogTo(l Logger) {
	logOnce.Do(func() {})
	redis.SetLogger(l)
}

func silence() { logOnce.Do(func() { redis.SetLogger(silent{}) }) }

type silent struct{}

// Printf drops what the library would log.
func (silent) Printf(context.Context, string, ...any) {}
