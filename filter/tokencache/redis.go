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
	// maxMembers bounds the members of a group in bytes.
	maxMembers = 16 << 10
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

func (s *redisStore) record(ctx context.Context, of *contract.Scopes, hash contract.Hash, alone bool) (stored, error) {
	keys := append(make([]key, 0, len(of.Members)+2), key{contract.RedisClockKey, maxSmall}, key{contract.RedisMembersKey(of.Of), maxMembers})
	for _, plane := range of.Members {
		keys = append(keys, key{contract.RedisRecordKey(plane, hash), contract.MaxSigned})
	}
	values, err := s.get(ctx, alone && s.several, keys)
	if err != nil {
		return stored{}, err
	}
	return stored{clock: values[0], members: values[1], entries: values[2:]}, nil
}

func (s *redisStore) floors(ctx context.Context, r *contract.Record, alone bool) (ofCredential, ofConsumer []byte, err error) {
	keys := append(make([]key, 0, 2), key{contract.RedisCredentialKey(r.Plane, r.Credential.ID), maxSmall})
	if r.Consumer != nil {
		keys = append(keys, key{contract.RedisConsumerKey(r.Plane, r.Consumer.ID), maxSmall})
	}
	values, err := s.get(ctx, alone, keys)
	if err != nil {
		return nil, nil, err
	}
	if r.Consumer != nil {
		ofConsumer = values[1]
	}
	return values[0], ofConsumer, nil
}

// key is what to read, and how many bytes of it at most.
type key struct {
	name  string
	limit int
}

// get reads some keys in one pipeline of commands on single keys, which
// behaves alike on a single node, behind Sentinel and in a cluster. It asks for a
// byte more than it takes: whoever can write Redis must not be able to make Envoy
// allocate what stands there. again has it made sure of, behind them, that the data are still
// those of servers that may be read.
func (s *redisStore) get(ctx context.Context, again bool, keys []key) ([][]byte, error) {
	if again && len(s.servers) > 0 {
		ctx = redisconn.Again(ctx, s.servers)
	}
	pipe := s.client.Pipeline()
	commands := make([]*redis.StringCmd, len(keys))
	for i, k := range keys {
		commands[i] = pipe.GetRange(ctx, k.name, 0, int64(k.limit))
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	values := make([][]byte, len(keys))
	for i, k := range keys {
		var err error
		if values[i], err = value(commands[i], k.limit); err != nil {
			return nil, err
		}
	}
	return values, nil
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
