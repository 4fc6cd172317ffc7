package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// sentinels say where the primary is. They are asked for each connection, so nothing has to
// subscribe to them: when they replace a primary they close its connections, and a primary
// that is gone has none.
type sentinels struct {
	target  *address
	dial    dial
	timeout time.Duration // of one question
}

// dialMaster connects to the current primary.
func (s *sentinels) dialMaster(ctx context.Context, network, _ string) (net.Conn, error) {
	address, err := s.primary(ctx)
	if err != nil {
		return nil, err
	}
	return s.dial(ctx, network, address)
}

type sighting struct {
	address string
	err     error
}

// primary asks all sentinels at once and takes the most frequent answer. It decides as soon
// as an answer has the majority. So a sentinel that is away delays nothing while the others
// agree, and one that is cut off and still names the old primary is outvoted.
func (s *sentinels) primary(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	all := s.target.addresses
	sightings := make(chan sighting)
	for _, address := range all {
		go func() {
			primary, err := s.ask(ctx, address)
			sightings <- sighting{primary, err}
		}()
	}
	votes := map[string]int{}
	best, decided := "", false
	var failures []error
	for left := len(all) - 1; left >= 0; left-- { // wait for all of them, so that none outlives the dial
		v := <-sightings
		if decided {
			continue
		}
		if v.err != nil {
			failures = append(failures, v.err)
		} else if votes[v.address]++; votes[v.address] > votes[best] {
			best = v.address
		}
		if 2*votes[best] > len(all) {
			decided = true
			cancel()
		}
	}
	if best == "" {
		return "", fmt.Errorf("no sentinel names the primary: %w", errors.Join(failures...))
	}
	return best, nil
}

// ask asks one sentinel, over a connection of its own.
func (s *sentinels) ask(ctx context.Context, address string) (string, error) {
	c := redis.NewClient(&redis.Options{
		Addr: address, Dialer: late(s.dial), Username: s.target.sentinelUsername, Password: s.target.sentinelPassword,
		MaxRetries: -1, DialerRetries: 1, DialTimeout: s.timeout, ReadTimeout: s.timeout, WriteTimeout: s.timeout,
		ContextTimeoutEnabled: true, PoolSize: 1, PipelinePoolSize: -1, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer func() { _ = c.Close() }() // fails only if ctx has already closed it
	// A read in progress only knows the deadline of its context; closing the client ends it
	// on cancellation.
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	question := redis.NewStringSliceCmd(ctx, "sentinel", "get-master-addr-by-name", s.target.master)
	_ = c.Process(ctx, question) // the answer holds the error
	answer, err := question.Result()
	if errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("sentinel %s knows no %q", address, s.target.master)
	}
	if err != nil {
		return "", fmt.Errorf("sentinel %s: %w", address, err)
	}
	if len(answer) != 2 || !goodAddress(answer[0], answer[1]) {
		return "", fmt.Errorf("sentinel %s gave no address", address)
	}
	return net.JoinHostPort(answer[0], answer[1]), nil
}
