package redisconn

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// once prevents the client of a cluster from repeating a command whose answer did not
// arrive. A write that took effect twice, or late, would look like one that was answered,
// but a writer must know which of its writes may still arrive. Redirections (MOVED, ASK) are
// answers: the command follows them. Clients of one server never repeat anything.
type once struct{}

// DialHook implements [redis.Hook].
func (once) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (once) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return next(ctx, sentOnce(cmd)) }
}

// ProcessPipelineHook implements [redis.Hook].
func (once) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		guarded := make([]redis.Cmder, len(cmds))
		for i, cmd := range cmds {
			guarded[i] = sentOnce(cmd)
		}
		return next(ctx, guarded)
	}
}

// sentOnce marks a command that may change something. Reads may be repeated, because
// otherwise the first use of a connection to a server that has gone would fail.
func sentOnce(cmd redis.Cmder) redis.Cmder {
	switch cmd.Name() {
	case "get", "getrange", "info":
		return cmd
	}
	return onceCmd{cmd}
}

// onceCmd is a command that the library does not repeat. It does not repeat a pipeline that
// contains one either.
type onceCmd struct{ redis.Cmder }

// NoRetry implements [redis.Cmder].
func (onceCmd) NoRetry() bool { return true }
