package revoke

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn"
)

const (
	// redisTimeout bounds one exchange with Redis.
	redisTimeout = 500 * time.Millisecond
	pipelineSize = 500
)

// Open returns a client with the timeouts that this package relies on.
func Open(settings contract.RedisSettings) (redis.UniversalClient, error) {
	return redisconn.Open(redisconn.Options{Settings: settings, Timeout: redisTimeout, DialTimeout: redisTimeout})
}

// remote is what this package needs from Redis.
type remote interface {
	// identify asks the primaries that are written to for their identities. pin asks the
	// same, and from then on no other servers are written to: writes fail if another server
	// takes over, until it has been looked at.
	identify(ctx context.Context) ([]redisconn.Server, error)
	pin(ctx context.Context) ([]redisconn.Server, error)
	// clock returns the value of the clock's key, or nil if there is none.
	clock(ctx context.Context) ([]byte, error)
	// setClock replaces the clock and returns the previous value.
	setClock(ctx context.Context, clock []byte) (before []byte, err error)
	// write carries out writes. After an error some of them may not have been carried out.
	// If the error wraps errRefused, those will not be carried out later either.
	write(ctx context.Context, cells []cell) error
}

// errRefused says that the server has answered, and will not carry out the failed commands
// later.
var errRefused = errors.New("redis refused a write")

// reached is a remote that uses a client.
type reached struct {
	client  redis.UniversalClient
	tracker Tracker
}

func (s *reached) identify(ctx context.Context) ([]redisconn.Server, error) {
	return redisconn.Identify(ctx, s.client)
}

func (s *reached) pin(ctx context.Context) ([]redisconn.Server, error) {
	return redisconn.Pin(ctx, s.client)
}

func (s *reached) clock(ctx context.Context) ([]byte, error) {
	data, err := s.client.Get(ctx, contract.RedisClockKey).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return data, err
}

func (s *reached) write(ctx context.Context, cells []cell) error {
	if len(cells) == 0 {
		return nil
	}
	if s.tracker != nil {
		return s.put(cells)
	}
	pipe := s.client.Pipeline()
	for i := range cells {
		c, a := &cells[i], redis.SetArgs{}
		if c.expires > 0 {
			a.ExpireAt = time.UnixMilli(c.expires)
		}
		pipe.SetArgs(ctx, c.key, c.value, a)
	}
	answers, err := pipe.Exec(ctx)
	if err == nil {
		return nil
	}
	for _, a := range answers {
		if err := a.Err(); err != nil && !sure(err) {
			return err
		}
	}
	return errors.Join(errRefused, err)
}

// put is write for a server that is part of this process.
func (s *reached) put(cells []cell) (err error) {
	for i := range cells {
		if c := &cells[i]; !s.tracker.Put(c.key, c.value, c.expires, c.guards()) {
			err = errFull
		}
	}
	return err
}

// errFull says that the server of this process has no room for a key.
var errFull = fmt.Errorf("%w: there is no room for a key", errRefused)

// setClock reads and writes in one pipeline on one key, so that one server gets both
// commands in this order. Every release of Redis understands this.
func (s *reached) setClock(ctx context.Context, clock []byte) ([]byte, error) {
	if s.tracker != nil {
		before := s.tracker.Value(contract.RedisClockKey)
		return before, s.put([]cell{{isTombstone, contract.RedisClockKey, clock, 0, nil}})
	}
	pipe := s.client.Pipeline()
	get, set := pipe.Get(ctx, contract.RedisClockKey), pipe.Set(ctx, contract.RedisClockKey, clock, 0)
	_, _ = pipe.Exec(ctx) // each command has its own error
	if err := set.Err(); err != nil {
		if sure(err) {
			err = errors.Join(errRefused, err)
		}
		return nil, err
	}
	before, _ := get.Bytes() // a value that is no clock counts as none
	return before, nil
}

// sure reports whether a failed command will not be carried out later. Either the server
// has said so, or there was no connection to send it on.
func sure(err error) bool {
	var refused redis.Error
	var broken *net.OpError
	return errors.As(err, &refused) || (errors.As(err, &broken) && broken.Op == "dial")
}
