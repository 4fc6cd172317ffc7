package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// firstConnections is the lowest number of connections that a policy of the
// bench sets; each round sets another one.
const firstConnections = 2000

// scenarios are all of them, in the order in which they run.
func (b *bench) scenarios() []scenario {
	return []scenario{
		{name: "connect", what: "all clients at once, until each holds its clusters, assignments, listeners, route tables and secrets", free: true, once: b.connect},
		{name: "idle", what: "nothing happens", rounds: 1, once: b.idleRound},
		{name: "endpoint", what: "one dataplane of svc-0 gets another port, until every client holds the assignment with it", once: b.endpoint},
		{name: "policy", what: "CircuitBreaker * to * changes, until every client holds all its clusters with it", once: b.policy},
		{name: "narrow", what: "CircuitBreaker for one service changes, until those who consume it hold the cluster", once: b.narrowPolicy},
		{name: "unrelated", what: "a dataplane changes that concerns nobody", once: b.unrelatedWrite},
		{name: "permission", what: "TrafficPermission for svc-0 comes and goes, until its instances hold another route table or listener", once: b.permission},
		{name: "ca", what: "the builtin authority is replaced, until every client holds an identity of the new one and trusts it alone", once: b.authority},
		{name: "reconnect", what: "all connections are dropped at once and come back with the versions they hold; nothing is due again", once: b.reconnect},
	}
}

func (b *bench) connect(ctx context.Context, _ int) (round, error) {
	b.fleet.closeAll()
	for _, c := range b.fleet.clients {
		c.mu.Lock()
		c.forget()
		c.mu.Unlock()
	}
	r, err := b.measure(ctx, &goal{complete: true, want: everyone}, quiet, func() error { return b.fleet.openAll(ctx) })
	if err == nil {
		err = b.fleet.sane()
	}
	return r, err
}

// sane checks that every client holds something of each type: otherwise the
// figures that follow would flatter.
func (f *fleet) sane() error {
	for _, c := range f.clients {
		for k := range kinds {
			c.mu.Lock()
			n := len(c.table[k])
			c.mu.Unlock()
			if n == 0 {
				return fmt.Errorf("client %s was given nothing of %s: %s", c.name, shortTypes[k], c.state())
			}
		}
	}
	return nil
}

func (b *bench) idleRound(ctx context.Context, _ int) (round, error) {
	return b.measure(ctx, nil, 0, func() error {
		t := time.NewTimer(b.idle)
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

func (b *bench) endpoint(ctx context.Context, i int) (round, error) {
	port := basePort + 1 + i
	has := cached(func(v []byte) (bool, error) { return hasEndpoint(v, address(0), uint64(port)) })
	g := &goal{want: everyone, match: func(k kind, h held, v []byte) (bool, error) {
		if k != eds {
			return false, nil
		}
		return has(h, v)
	}}
	return b.measure(ctx, g, quiet, func() error { return b.putDataplane(ctx, meshName, 0, port, service(0)) })
}

// breaker measures the change of a circuit breaker.
func (b *bench) breaker(ctx context.Context, name, destination string, connections uint64, want func(*client) int) (round, error) {
	has := cached(func(v []byte) (bool, error) {
		n, err := maxConnections(v)
		return n == connections, err
	})
	g := &goal{want: want, match: func(k kind, h held, v []byte) (bool, error) {
		if k != cds || h.facts.endpoints == "" {
			return false, nil
		}
		return has(h, v)
	}}
	return b.measure(ctx, g, quiet, func() error {
		_, err := b.plane.call(ctx, http.MethodPut, "/meshes/"+meshName+"/circuit-breakers/"+name, circuitBreaker(name, destination, connections))
		return err
	})
}

func (b *bench) policy(ctx context.Context, i int) (round, error) {
	return b.breaker(ctx, "circuit-breaker-all-"+meshName, "*", uint64(firstConnections+i), func(c *client) (n int) {
		for _, h := range c.table[cds] {
			if h.facts.endpoints != "" {
				n++
			}
		}
		return n
	})
}

func (b *bench) narrowPolicy(ctx context.Context, i int) (round, error) {
	svc := service(b.work.narrow())
	return b.breaker(ctx, "bench-narrow", svc, uint64(2*firstConnections+i), func(c *client) int {
		if c.names[eds][svc] {
			return 1
		}
		return 0
	})
}

func (b *bench) unrelatedWrite(ctx context.Context, i int) (round, error) {
	r, err := b.measure(ctx, nil, quiet, func() error { return b.unrelated(ctx, basePort+1+i) })
	if n := total(r.Messages); err == nil && n > 0 {
		err = errors.New("messages were sent although nobody is concerned: " + perType(r.Messages))
	}
	return r, err
}

func (b *bench) permission(ctx context.Context, i int) (round, error) {
	g := &goal{
		want: func(c *client) int {
			if c.index%b.work.Services == 0 {
				return 1
			}
			return 0
		},
		match: func(k kind, _ held, _ []byte) (bool, error) { return k == lds || k == rds, nil },
	}
	const name = "bench-permission"
	path := "/meshes/" + meshName + "/traffic-permissions/" + name
	return b.measure(ctx, g, quiet, func() error {
		if i%2 == 1 {
			_, err := b.plane.call(ctx, http.MethodDelete, path, nil)
			return err
		}
		_, err := b.plane.call(ctx, http.MethodPut, path, object{
			"type": "TrafficPermission", "mesh": meshName, "name": name,
			"sources": selector(service(1)), "destinations": selector(service(0)),
		})
		return err
	})
}

func (b *bench) authority(ctx context.Context, i int) (round, error) {
	r, err := newRoot(int64(i + 1))
	if err != nil {
		return round{}, err
	}
	g := &goal{
		want: func(*client) int { return 2 }, // the identity and the bundle
		match: func(k kind, _ held, v []byte) (bool, error) {
			if k != sds {
				return false, nil
			}
			return r.carries(v)
		},
	}
	return b.measure(ctx, g, quiet, func() error { return b.rotate(ctx, r) })
}

func (b *bench) reconnect(ctx context.Context, _ int) (round, error) {
	r, err := b.measure(ctx, &goal{probe: true, want: everyone}, quiet, func() error {
		b.fleet.closeAll()
		return b.fleet.openAll(ctx)
	})
	if err == nil && total(r.Resources)+r.Removed > 0 {
		err = errors.New("resources were sent again although nothing had changed: " + perType(r.Resources))
	}
	return r, err
}
