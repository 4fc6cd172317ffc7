package redisconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrNotVouched is the error for a server that the control plane does not vouch for.
var ErrNotVouched = errors.New("redis is another server than the control plane vouches for")

// Vouched is an [Options.OnConnect] that refuses servers that the control plane does not
// write to. It also refuses a server that has become a replica, because its data may be old.
func Vouched(servers []string) func(context.Context, func() (Server, error)) error {
	return func(_ context.Context, info func() (Server, error)) error {
		server, err := info()
		if err != nil {
			return err
		}
		return vouchedFor(servers, server)
	}
}

func vouchedFor(servers []string, s Server) error {
	if s.Identity() == "" || !slices.Contains(servers, s.Identity()) || (s.Role != "" && s.Role != rolePrimary) {
		return ErrNotVouched
	}
	return nil
}

// stillVouchedFor is [vouchedFor] for an open connection. The server has already said which
// process it is, and a connection does not outlive that process. Now it says whose data it
// holds. A server that does not say so is refused.
func stillVouchedFor(servers []string, s Server) error {
	if s.Role == "" {
		return ErrNotVouched
	}
	for _, identity := range servers {
		run, _, _ := strings.Cut(identity, "/")
		s.RunID, _, _ = strings.Cut(run, "#")
		if vouchedFor(servers, s) == nil {
			return nil
		}
	}
	return ErrNotVouched
}

// OnSeveral reports whether the keys of a client lie on several servers, each of which
// speaks only for its own keys.
func OnSeveral(c redis.UniversalClient) bool {
	if own, ok := c.(*client); ok {
		c = own.UniversalClient
	}
	_, cluster := c.(*redis.ClusterClient)
	return cluster
}

// againKey is the context key of the servers that are vouched for.
type againKey struct{}

// Again makes every server that answers commands of a pipeline say once more whose data it
// holds, on the same connection and after the answers. The pipeline must run with this
// context, in a client of this package. This is necessary because a server keeps its
// connections when it is made to follow another one. It then takes over the other server's
// data, which may be older than what was read before. A member of a cluster redirects while
// it follows, but answers again when it is made a primary. If the data no longer belong to
// one of the servers, or the server does not say, the commands get [ErrNotVouched].
func Again(ctx context.Context, servers []string) context.Context {
	return context.WithValue(ctx, againKey{}, servers)
}

// notAgain is for the commands with which a client opens a connection.
func notAgain(ctx context.Context) context.Context { return context.WithValue(ctx, againKey{}, nil) }

// again is the hook that obeys [Again]. It belongs to the client of one server, or to that
// of each node of a cluster, where it sees everything that is sent to that node, including
// redirected commands.
type again struct{ database int }

// DialHook implements [redis.Hook].
func (again) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (again) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (a again) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		servers, asked := ctx.Value(againKey{}).([]string)
		if !asked {
			return next(ctx, cmds)
		}
		// The client of a cluster repeats a question together with the commands before it,
		// and may send it to any node.
		reads := slices.DeleteFunc(slices.Clone(cmds), func(cmd redis.Cmder) bool { _, ok := cmd.(question); return ok })
		if len(reads) == 0 {
			return nil
		}
		q := question{redis.NewStringCmd(ctx, "info", "replication")}
		err := next(notAgain(ctx), append(slices.Clip(reads), q))
		if unread := a.judge(servers, q); unread != nil {
			for _, cmd := range reads {
				if cmd.Err() == nil {
					cmd.SetErr(unread)
				}
			}
			return cmp.Or(err, unread)
		}
		return err
	}
}

// question is the question that follows the commands of a pipeline.
type question struct{ *redis.StringCmd }

// judge says whether the answers before a question count. They do not count if the
// connection ended before the question was answered, but then nothing is known about the
// server either.
func (a again) judge(servers []string, q question) error {
	text, err := q.Result()
	var said redis.Error
	switch {
	case errors.As(err, &said):
		return fmt.Errorf("%w, for all that it says: %w", ErrNotVouched, err)
	case err != nil:
		return fmt.Errorf("asked whose data it holds: %w", err)
	}
	s := Server{Database: a.database}
	s.parse(text)
	return stillVouchedFor(servers, s)
}
