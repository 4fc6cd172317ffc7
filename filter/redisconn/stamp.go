package redisconn

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// errNotSent says that commands were not sent, for want of a connection.
var errNotSent = errors.New("no connection to redis")

// stamp gives the commands of a pipeline the error of a connection that could not be
// had. The library leaves them without one if the error is an answer of a server, such
// as to a wrong password: then they look like reads of keys that do not exist, and a
// floor that does not exist revokes nothing.
type stamp struct{}

// DialHook implements [redis.Hook].
func (stamp) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (stamp) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (stamp) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if err == nil {
			return nil
		}
		for _, cmd := range cmds {
			if cmd.Err() != nil {
				return err // they were answered, or have the error already
			}
		}
		err = fmt.Errorf("%w: %w", errNotSent, err)
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
		return err
	}
}
