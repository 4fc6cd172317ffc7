package redisconn

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

var errStranger = errors.New("redis is another server than was identified")

// Pin identifies the servers that the client writes to, and from then on allows no others.
// In particular it does not allow the successor of a replaced server, which the caller does
// not know yet. Pin closes the open connections, so calls in progress may fail. Another Pin
// finds the servers of that moment. If a server does not say who it is, nothing is pinned.
func Pin(ctx context.Context, c redis.UniversalClient) ([]Server, error) {
	own, ok := c.(*client)
	if !ok {
		return Identify(ctx, c)
	}
	own.pins.set(nil, true)
	own.dials.drop()
	all, err := Identify(ctx, c)
	if err != nil {
		return nil, err
	}
	var ids []string
	for i := range all {
		if all[i].Identity() == "" {
			own.pins.set(nil, false)
			return all, nil
		}
		ids = append(ids, all[i].Identity())
	}
	own.pins.set(ids, true)
	own.dials.drop() // some may have been opened to other servers meanwhile
	return all, nil
}

// pins are the servers that a client may use.
type pins struct {
	mu     sync.Mutex
	active bool
	ids    []string // nil while they are being identified
}

func (p *pins) set(ids []string, active bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids, p.active = ids, active
}

// check judges a new connection. A replica is never used, because it could become a primary
// while the connection is open.
func (p *pins) check(info func() (Server, error)) error {
	p.mu.Lock()
	active := p.active
	p.mu.Unlock()
	if !active {
		return nil
	}
	s, err := info()
	if err != nil {
		return err
	}
	p.mu.Lock() // the state after the answer is what counts
	defer p.mu.Unlock()
	switch {
	case s.Role != "" && s.Role != rolePrimary:
		return errNotPrimary
	case p.active && p.ids != nil && !slices.Contains(p.ids, s.Identity()):
		return errStranger
	}
	return nil
}
