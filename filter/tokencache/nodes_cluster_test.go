package tokencache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

// filter is a cache that reads a cluster while its control plane is away, without a lease.
// Its clock stands still: no breaker tries again unless a test lets time pass.
type filter struct {
	*Cache
	clock *fakeClock

	mu    sync.Mutex
	dials map[string]int
}

func (c *cluster) filter(redis contract.RedisSettings, settings contract.CacheSettings) *filter {
	c.Helper()
	d := newDirectory(c.T)
	f := &filter{clock: d.clock, dials: map[string]int{}}
	settings.MaxBytes = 1 << 20
	var err error
	f.Cache, err = Open(Options{
		Settings: &contract.Settings{Redis: &redis, RecordKeys: testKeys(testKey), ControlPlane: &d.cp, Cache: settings},
		Logger:   slog.New(slog.DiscardHandler), DialLink: d.control.dial, DialRedis: f.dial, Clock: d.clock,
		// A read that is not answered ends before its look-up does, and counts.
		RedisTimeout: roundTimeout / (l2Patience + 1),
	})
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(f.Close)
	l := d.control.accept()
	l.json(contract.FrameWelcome, contract.Welcome{Scopes: testScopes, Log: testLog, Trust: contract.Trust{Epoch: testEpoch, Servers: c.vouched}})
	soon(c.T, "the filter has had a lease", func() bool { return f.Stats().Leased })
	d.control.down.Store(true)
	_ = l.conn.Close()
	unlinked(c.T, f.Cache)
	f.clock.add(contract.Lease)
	return f
}

func (f *filter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	f.mu.Lock()
	f.dials[address]++
	f.mu.Unlock()
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// dialled says how often the first two servers of the cluster were.
func (f *failing) dialled() [2]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return [2]int{f.dials[f.servers[0].Address()], f.dials[f.servers[1].Address()]}
}

// put writes a token all of whose keys lie on one server, as the control plane does.
func (c *cluster) put(server int) (token int) {
	c.Helper()
	token = c.of(server, recordKey)
	r := storable(testRecord(token, 5))
	r.Credential.ID = fmt.Sprint(c.of(server, func(i int) string { return contract.RedisCredentialKey(testPlane, fmt.Sprint(i)) }))
	r.Consumer.ID = fmt.Sprint(c.of(server, func(i int) string { return contract.RedisConsumerKey(testPlane, fmt.Sprint(i)) }))
	signed, err := r.Sign(hashOf(token), testKey)
	if err != nil {
		c.Fatal(err)
	}
	floor, ctx := contract.Floor{Epoch: testEpoch}.Marshal(), c.Context()
	if err := errors.Join(
		c.db.Set(ctx, recordKey(token), signed, 0).Err(),
		c.db.Set(ctx, contract.RedisCredentialKey(testPlane, r.Credential.ID), floor, 0).Err(),
		c.db.Set(ctx, contract.RedisConsumerKey(testPlane, r.Consumer.ID), floor, 0).Err(),
	); err != nil {
		c.Fatal(err)
	}
	return token
}

// failing is a cluster with a token on each server, which a filter has read, before a server
// was replaced and another one stands still. What is on the third one counts.
type failing struct {
	*cluster
	*filter
	replaced, frozen, good int
}

func startFailing(t *testing.T, replace func(c *cluster)) *failing {
	c := startCluster(t)
	for _, s := range c.servers { // else the others refuse to be read, and not this filter
		s.CLI(t, "CONFIG", "SET", "cluster-require-full-coverage", "no")
		s.CLI(t, "CONFIG", "SET", "cluster-allow-reads-when-down", "yes")
	}
	f := &failing{cluster: c, replaced: c.put(0), frozen: c.put(1), good: c.put(2)}
	clock := contract.Clock{Epoch: testEpoch, Log: testLog, Position: 9}.Marshal()
	if err := c.db.Set(t.Context(), contract.RedisMembersKey(testPlane), testMembers, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.db.Set(t.Context(), contract.RedisClockKey, clock, 0).Err(); err != nil || c.servers[2].CLI(t, "EXISTS", contract.RedisClockKey) != "1" {
		t.Fatalf("the clock is not where the good token is: %v", err)
	}
	f.filter = c.filter(c.settings(), contract.CacheSettings{})
	for _, token := range []int{f.replaced, f.frozen, f.good} {
		f.want("before", token, contract.Found)
	}
	replace(c)
	c.servers[1].Freeze(t)
	return f
}

func (f *failing) want(what string, token int, want contract.Answer) {
	f.T.Helper()
	if got := ask(f.T, f.Cache, token); got != want {
		f.Errorf("%s: answer %d, want %d, %+v", what, got, want, f.Stats())
	}
}

func (f *failing) wantBad() {
	f.T.Helper()
	f.want("replaced", f.replaced, contract.Unavailable)
	f.want("frozen", f.frozen, contract.Unavailable)
}

// TestServersOfAClusterFailAlone: a server of a cluster that was replaced, and one that
// stands still, are left alone, and what lies on the third one is answered all the while.
func TestServersOfAClusterFailAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		replace func(*cluster)
		names   int // addresses by which a cluster knows the two
	}{
		"replaced, and back": {func(c *cluster) { c.failOver(func(*redistest.Server) {}) }, 2},
		"started anew": {func(c *cluster) {
			c.servers[3].Kill() // it would take over
			c.servers[0].Restart(c)
		}, 4}, // the others find out that it is no member, and name none, or a port alone
	} {
		t.Run(name, func(t *testing.T) {
			f := startFailing(t, tc.replace)
			for range breakerFailures {
				f.wantBad()
			}
			f.want("good, behind those", f.good, contract.Found)
			const more = 20
			before := f.dialled()
			for range more {
				f.wantBad()
				f.want("good, beside those", f.good, contract.Found)
			}
			after := f.dialled()
			// The library asks for slots now and then, whoever is left alone.
			if after[0]-before[0] >= more || after[1]-before[1] >= more {
				t.Errorf("dialled for each look-up: %v, then %v", before, after)
			}
			s := f.Stats()
			failed := s.L2Errors + s.L2Untrusted
			if failed > uint64(tc.names*breakerFailures) || failed+s.L2Skipped != 2*(breakerFailures+more) || !s.BreakerOpen {
				t.Errorf("somebody waited for those that are known: %+v", s)
			}
			f.servers[1].Thaw(t)
			redistest.Until(t, "the second is read again", func() bool {
				f.clock.add(breakerProbe)
				return ask(t, f.Cache, f.frozen) == contract.Found
			})
			f.want("replaced", f.replaced, contract.Unavailable)
			f.want("good, at last", f.good, contract.Found)
			if !f.Stats().BreakerOpen {
				t.Error("the one that was replaced is not left alone")
			}
		})
	}
}

// TestFilterBeginsBesideAFrozenServer: whoever does not know yet where keys are asks that of
// a server that stands still a few times at most.
func TestFilterBeginsBesideAFrozenServer(t *testing.T) {
	c := startCluster(t)
	for _, s := range c.servers {
		s.CLI(t, "CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	good := c.put(2)
	if err := c.db.Set(t.Context(), contract.RedisMembersKey(testPlane), testMembers, 0).Err(); err != nil {
		t.Fatal(err)
	}
	clock := contract.Clock{Epoch: testEpoch, Log: testLog, Position: 9}.Marshal()
	if err := c.db.Set(t.Context(), contract.RedisClockKey, clock, 0).Err(); err != nil {
		t.Fatal(err)
	}
	c.servers[1].Freeze(t)
	settings := contract.RedisSettings{URL: "redis+cluster://" + c.servers[1].Address() + "," + c.servers[2].Address()}
	f := c.filter(settings, contract.CacheSettings{})
	failures := 0
	for ask(t, f.Cache, good) != contract.Found {
		if failures++; failures > breakerFailures {
			t.Fatalf("%d look-ups failed: %+v", failures, f.Stats())
		}
	}
}

// TestATombstoneLeavesNoRoomForGrace: the server of a revoked token says so, and that of the
// clock stands still. The filter has the token in memory, and may serve it if nobody answers.
func TestATombstoneLeavesNoRoomForGrace(t *testing.T) {
	for name, more := range map[string]int{"at once": 0, "once it is left alone": breakerFailures} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t)
			for _, s := range c.servers {
				s.CLI(t, "CONFIG", "SET", "cluster-require-full-coverage", "no")
				s.CLI(t, "CONFIG", "SET", "cluster-allow-reads-when-down", "yes")
			}
			token := c.put(0)
			clock := contract.Clock{Epoch: testEpoch, Log: testLog, Position: 9}.Marshal()
			if err := c.db.Set(t.Context(), contract.RedisMembersKey(testPlane), testMembers, 0).Err(); err != nil {
				t.Fatal(err)
			}
			if err := c.db.Set(t.Context(), contract.RedisClockKey, clock, 0).Err(); err != nil || c.servers[2].CLI(t, "EXISTS", contract.RedisClockKey) != "1" {
				t.Fatal("the clock is elsewhere", err)
			}
			f := c.filter(c.settings(), contract.CacheSettings{Grace: 60_000})
			if got := ask(t, f.Cache, token); got != contract.Found {
				t.Fatalf("before: %d", got)
			}
			if err := c.db.Set(t.Context(), recordKey(token), contract.MarshalTombstone(9), 0).Err(); err != nil {
				t.Fatal(err)
			}
			c.servers[2].Freeze(t)
			defer c.servers[2].Thaw(t)
			for range more + 1 {
				if got := ask(t, f.Cache, token); got == contract.Found {
					t.Fatalf("a revoked token is accepted: %+v", f.Stats())
				}
			}
		})
	}
}
