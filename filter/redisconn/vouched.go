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

// ErrNotVouched is why a server that another one stands for is not read.
var ErrNotVouched = errors.New("redis is another server than the control plane vouches for")

// Vouched is an [Options.OnConnect] which refuses servers that the control plane does
// not write to, and one that has become a replica since: what it holds may be old.
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

// stillVouchedFor is [vouchedFor] for an open connection, whose server has said before
// which process it is: a connection does not outlive that. What it says now is whose data
// it holds. One that will not say it is not taken for one that does.
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
// speaks for its own ones only.
func OnSeveral(c redis.UniversalClient) bool {
	if own, ok := c.(*client); ok {
		c = own.UniversalClient
	}
	_, cluster := c.(*redis.ClusterClient)
	return cluster
}

// againKey is of the servers that are vouched for, in a context.
type againKey struct{}

// Again has every server that answers commands of a pipeline say once more whose data it
// holds, on the same connection and behind the answers. The pipeline is run with this
// context, by a client of this package. A server that is made to follow another one keeps
// its connections and takes over what that one holds, which may be older than what was read
// before; also one of a cluster, which names others while it follows, and answers again
// when it is made a primary. Where the data are not those of one of the servers any more,
// or that is not said, the commands have [ErrNotVouched].
func Again(ctx context.Context, servers []string) context.Context {
	return context.WithValue(ctx, againKey{}, servers)
}

// notAgain is for what a client asks in between, to open a connection.
func notAgain(ctx context.Context) context.Context { return context.WithValue(ctx, againKey{}, nil) }

// again is what obeys [Again]: a hook of the client of one server, or of that of each
// node of a cluster. There it sees what goes to that node, wherever it was sent before.
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
		// The client of a cluster repeats a question together with what it stood behind,
		// and sends it anywhere.
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

// question is the one that stands behind the commands of a pipeline.
type question struct{ *redis.StringCmd }

// judge says whether the answers in front of a question count. Of a connection that ended
// before it was answered they do not, but nothing is known of its server.
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
