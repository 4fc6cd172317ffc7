package redisconn

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// once keeps the library from sending a command of a cluster again whose answer did not
// come. A write that was carried out twice, or late, would look like one that was
// answered, and whoever writes must know of each that it may still arrive. An answer
// that says where a slot is (MOVED, ASK) is none of these: the command goes there.
// Clients of one server send nothing again at all.
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

// sentOnce marks a command that may change something. Questions are asked again: the
// first use of a connection whose server has gone would else fail.
func sentOnce(cmd redis.Cmder) redis.Cmder {
	switch cmd.Name() {
	case "get", "getrange", "info":
		return cmd
	}
	return onceCmd{cmd}
}

// onceCmd is a command that the library does not repeat. A pipeline that holds one is
// not repeated as a whole.
type onceCmd struct{ redis.Cmder }

// NoRetry implements [redis.Cmder].
func (onceCmd) NoRetry() bool { return true }
