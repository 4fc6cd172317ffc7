package tokencache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn"
)

const (
	// redisConnections is one for each look-up that has its turn: none waits for
	// a connection, which would count as a failure of Redis.
	redisConnections = maxLookups
	redisDialTimeout = time.Second
	// maxSmall bounds clocks and floors in bytes.
	maxSmall = 1 << 10
)

// errUnusable says that something stands under a key which nobody who may
// write there has written. It says nothing about Redis itself.
var errUnusable = errors.New("redis holds a value that cannot be used")

// redisStore is a store in Redis.
type redisStore struct {
	client redis.UniversalClient
	// servers are those that may be read; none means any.
	servers []string
	// several says that the record and the floors may lie on different ones.
	several bool
}

// openRedis prepares a client; it connects when first used, to one of the servers
// only if these are known.
func openRedis(s *contract.RedisSettings, servers []string, dial Dial, timeout time.Duration) (store, error) {
	o := redisconn.Options{
		Settings: *s, Timeout: timeout, DialTimeout: redisDialTimeout, PoolSize: redisConnections, Dial: dial,
		OnNode: watchNode,
	}
	if len(servers) > 0 {
		o.OnConnect = redisconn.Vouched(servers)
	}
	c, err := redisconn.Open(o)
	if err != nil {
		return nil, err
	}
	return &redisStore{client: c, servers: servers, several: redisconn.OnSeveral(c)}, nil
}

func (s *redisStore) record(ctx context.Context, hash contract.Hash, alone bool) (entry, clock []byte, err error) {
	return s.get(ctx, alone && s.several, key{contract.RedisRecordKey(hash), contract.MaxSigned}, key{contract.RedisClockKey, maxSmall})
}

func (s *redisStore) floors(ctx context.Context, credential, consumer string, alone bool) (ofCredential, ofConsumer []byte, err error) {
	second := key{}
	if consumer != "" {
		second = key{contract.RedisConsumerKey(consumer), maxSmall}
	}
	return s.get(ctx, alone, key{contract.RedisCredentialKey(credential), maxSmall}, second)
}

// key is what to read, and how many bytes of it at most.
type key struct {
	name  string
	limit int
}

// get reads one or two keys in one pipeline of commands on single keys, which
// behaves alike on a single node, behind Sentinel and in a cluster. It asks for a
// byte more than it takes: whoever can write Redis must not be able to make Envoy
// allocate what stands there. again has it made sure of, behind them, that the data are still
// those of servers that may be read.
func (s *redisStore) get(ctx context.Context, again bool, first, second key) (a, b []byte, err error) {
	if again && len(s.servers) > 0 {
		ctx = redisconn.Again(ctx, s.servers)
	}
	pipe := s.client.Pipeline()
	one := pipe.GetRange(ctx, first.name, 0, int64(first.limit))
	var two *redis.StringCmd
	if second.name != "" {
		two = pipe.GetRange(ctx, second.name, 0, int64(second.limit))
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	if a, err = value(one, first.limit); err != nil {
		return nil, nil, err
	}
	if two != nil {
		b, err = value(two, second.limit)
	}
	return a, b, err
}

// value is what stands under a key; an absent one reads as empty.
func value(cmd *redis.StringCmd, limit int) ([]byte, error) {
	v, err := cmd.Bytes()
	switch {
	case err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE"):
		return nil, errUnusable
	case err != nil:
		return nil, fmt.Errorf("read redis: %w", err)
	case len(v) == 0:
		return nil, nil
	case len(v) > limit:
		return nil, errUnusable
	}
	return v, nil
}

func (s *redisStore) byNodes() bool { return s.several }

func (s *redisStore) close() error { return s.client.Close() }
