package tokencache

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/filter/redisconn"
)

// nodeHook is a hook of the client of one server of a cluster. It comes before all other
// hooks, so it sees what they make of the answers.
type nodeHook struct{ address string }

// watchNode puts a breaker between look-ups and a server of a cluster.
func watchNode(node *redis.Client) { node.AddHook(nodeHook{node.Options().Addr}) }

// DialHook implements [redis.Hook].
func (nodeHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook]. It handles the first look-up of a client, which asks
// where the slots are. The answer says nothing about reads: a server that answers may still
// not be readable, and one that refuses may be.
func (h nodeHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		v := visitOf(ctx)
		if _, slots := cmd.(*redis.ClusterSlotsCmd); v == nil || !slots {
			return next(ctx, cmd)
		}
		if err := v.enter(h.address); err != nil {
			cmd.SetErr(err)
			return err
		}
		err := next(outside(ctx), cmd)
		var refused redis.Error
		if err != nil && !errors.As(err, &refused) {
			v.leave(h.address, err)
		}
		return err
	}
}

// ProcessPipelineHook implements [redis.Hook]. Redirected commands still carry the error of
// the first server when they reach the second one. The hook clears it, because it says
// nothing about the second server. If the second server is left alone, the commands get that
// error instead. The library does not repeat commands that were not sent.
func (h nodeHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		v := visitOf(ctx)
		if v == nil {
			return next(ctx, cmds)
		}
		if err := v.enter(h.address); err != nil {
			setErrors(cmds, err)
			return err
		}
		setErrors(cmds, nil)
		err := next(outside(ctx), cmds)
		v.leave(h.address, verdict(cmds, err))
		return err
	}
}

func setErrors(cmds []redis.Cmder, err error) {
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
}

// outside is for the commands with which a client opens a connection.
func outside(ctx context.Context) context.Context { return context.WithValue(ctx, visitKey{}, nil) }

// verdict returns the reason why a server has not answered its reads, or nil if it has.
func verdict(cmds []redis.Cmder, err error) error {
	answered := false
	for _, cmd := range cmds {
		if _, read := cmd.(*redis.StringCmd); !read {
			continue
		}
		failed := cmd.Err()
		if failed != nil && !ofTheKey(failed) {
			return failed
		}
		answered = answered || failed != nil
	}
	if answered { // the rest of the error concerns the key
		return nil
	}
	return err
}

// ofTheKey reports whether an error concerns only the key (what it holds, or which server
// has it) and not the server.
func ofTheKey(err error) bool {
	return !errors.Is(err, redisconn.ErrNotVouched) && (errors.Is(err, redis.Nil) ||
		redis.HasErrorPrefix(err, "WRONGTYPE") || redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK"))
}
