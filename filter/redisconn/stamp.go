package redisconn

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// errNotSent says that commands were not sent because there was no connection.
var errNotSent = errors.New("no connection to redis")

// stamp gives the commands of a pipeline the error of a connection that could not be opened.
// The library leaves them without an error if the cause is an answer of a server, for
// example to a wrong password. They would then look like reads of keys that do not exist,
// and a floor that does not exist revokes nothing.
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
				return err // they were answered, or already have the error
			}
		}
		err = fmt.Errorf("%w: %w", errNotSent, err)
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
		return err
	}
}
