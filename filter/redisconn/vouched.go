package redisconn

import (
	"context"
	"errors"
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

// Again asks once more whose data is read, behind the reads of a pipeline; what it returns
// says, when the pipeline has run, whether they are still those of a server that is vouched
// for, and not what a replica holds. A server that is made to follow another keeps its
// connections and takes over what that one holds, which may be older than what was read
// before. Whether it is the same process is not asked: a connection does not outlive that.
// A cluster is not asked: a server that is no primary any more answers MOVED there.
func Again(ctx context.Context, c redis.UniversalClient, pipe redis.Pipeliner, servers []string) (judge func() error) {
	own, ok := c.(*client)
	if !ok {
		return func() error { return errors.New("redis: a client of another package") }
	}
	if _, cluster := own.UniversalClient.(*redis.ClusterClient); cluster {
		return func() error { return nil }
	}
	cmd := pipe.Info(ctx, "replication")
	return func() error {
		s := Server{Database: own.database}
		if err := s.learn([]*redis.StringCmd{cmd}); err != nil {
			return err
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
}

func vouchedFor(servers []string, s Server) error {
	if s.Identity() == "" || !slices.Contains(servers, s.Identity()) || (s.Role != "" && s.Role != rolePrimary) {
		return ErrNotVouched
	}
	return nil
}
