package tokencache

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/filter/redisconn"
)

// nodeHook is on the client of one server of a cluster, before all others: it sees what
// they make of the answers.
type nodeHook struct{ address string }

// watchNode has what is asked of a server of a cluster go through its breaker.
func watchNode(node *redis.Client) { node.AddHook(nodeHook{node.Options().Addr}) }

// DialHook implements [redis.Hook].
func (nodeHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook]. A look-up that is the first of its client asks
// where the slots are. A server that answers that may yet be none that is read, and one
// that refuses it may be read.
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

// ProcessPipelineHook implements [redis.Hook]. Commands that go to a second server have the
// error of the first one until they are answered: it says nothing of the second, and if
// that is left alone it is not why. The library does not repeat those that were not sent.
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

// outside is for what a client asks in between, to open a connection.
func outside(ctx context.Context) context.Context { return context.WithValue(ctx, visitKey{}, nil) }

// verdict is why a server has not answered what was read there.
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
	if answered { // the rest of the error is that of the key
		return nil
	}
	return err
}

// ofTheKey says whether an error says something of a key and nothing of the server: what
// stands there, or who has it.
func ofTheKey(err error) bool {
	return !errors.Is(err, redisconn.ErrNotVouched) && (errors.Is(err, redis.Nil) ||
		redis.HasErrorPrefix(err, "WRONGTYPE") || redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK"))
}
