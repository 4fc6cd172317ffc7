package redisconn

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Logger takes what the library would print.
type Logger interface {
	Printf(ctx context.Context, format string, args ...any)
}

var logOnce sync.Once

// LogTo sets where the library reports, for the whole process. Without it there
// is silence: inside Envoy a write to a pipe without a reader is fatal, and
// errors are reported by their callers.
func LogTo(l Logger) {
	logOnce.Do(func() {})
	redis.SetLogger(l)
}

func silence() { logOnce.Do(func() { redis.SetLogger(silent{}) }) }

type silent struct{}

// Printf drops what the library would log.
func (silent) Printf(context.Context, string, ...any) {}
