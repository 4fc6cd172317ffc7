package tokencache

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn"
	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

// cluster is a real one: three primaries and a replica of the first.
type cluster struct {
	*testing.T
	servers [4]*redistest.Server
	db      redis.UniversalClient
	vouched []string // the primaries as they were at first
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t, servers: redistest.StartCluster(t)}
	var err error
	if c.db, err = redisconn.Open(redisconn.Options{Settings: c.settings(), Timeout: 20 * time.Second}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.db.Close() })
	all, err := redisconn.Identify(t.Context(), c.db)
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v %v", all, err)
	}
	for _, s := range all {
		c.vouched = append(c.vouched, s.Identity())
	}
	return c
}

func (c *cluster) settings() contract.RedisSettings {
	return contract.RedisSettings{URL: "redis+cluster://" + c.servers[0].Address() + "," + c.servers[1].Address()}
}

// gateway is the reader of one, with connections to those who are vouched for.
func (c *cluster) gateway() *redisStore {
	c.Helper()
	settings := c.settings()
	st, err := openRedis(&settings, c.vouched, nil, 20*time.Second)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { _ = st.close() })
	return st.(*redisStore) //nolint:forcetypeassert // it makes no other
}

// of finds a number whose key lies on a server.
func (c *cluster) of(server int, key func(i int) string) int {
	c.Helper()
	for i := range 1000 {
		slot, err := strconv.Atoi(c.servers[0].CLI(c.T, "CLUSTER", "KEYSLOT", key(i)))
		if err != nil {
			c.Fatal(err)
		}
		if slot/5462 == server { // as redistest deals them out, but for the ends
			return i
		}
	}
	c.Fatalf("no key lies on server %d", server)
	return 0
}

func recordKey(i int) string { return contract.RedisRecordKey(testPlane, hashOf(i)) }

// failOver has the replica take the place of the first server before it has heard of what
// change does there, and then the first server the place that it had.
func (c *cluster) failOver(change func(first *redistest.Server)) {
	c.Helper()
	first, replica := c.servers[0], c.servers[3]
	redistest.Until(c, "the replica has it all", func() bool { return replica.CLI(c, "DBSIZE") == first.CLI(c, "DBSIZE") })
	replica.Freeze(c)
	first.CLI(c, "CLIENT", "KILL", "TYPE", "replica")
	change(first)
	first.Freeze(c)
	replica.Thaw(c)
	replica.TakeOver(c)
	first.Thaw(c)
	first.AwaitFollowing(c)
	first.TakeOver(c)
	replica.AwaitFollowing(c)
}

// A primary of a cluster that was replaced and is primary again holds what its successor
// held: a revocation that this one never had is lost. Redis leaves connections to it open
// all the while, so whoever has no lease is told by none of them.
func TestClusterThatFailedOverAndBack(t *testing.T) {
	c := startCluster(t)
	ctx := t.Context()
	token := c.of(0, recordKey)
	credential := fmt.Sprint(c.of(1, func(i int) string { return contract.RedisCredentialKey(testPlane, fmt.Sprint(i)) }))
	if err := errors.Join(c.db.Set(ctx, recordKey(token), "valid", 0).Err(), c.db.Set(ctx, contract.RedisClockKey, "clock", 0).Err()); err != nil {
		t.Fatal(err)
	}
	gateway := c.gateway()
	if at, err := gateway.record(ctx, testScopes, hashOf(token), true); err != nil || string(at.entries[0]) != "valid" || string(at.clock) != "clock" {
		t.Fatalf("before: %q, %v", at, err)
	}
	if _, _, err := gateway.floors(ctx, ownedBy(credential, ""), true); err != nil {
		t.Fatalf("before: %v", err)
	}
	c.failOver(func(first *redistest.Server) {
		if said := first.CLI(t, "SET", recordKey(token), "revoked"); said != "OK" {
			t.Fatal(said)
		}
	})
	if at, err := gateway.record(ctx, testScopes, hashOf(token), false); err != nil || string(at.entries[0]) != "valid" {
		t.Errorf("nothing was lost, or no connection was left open: %q, %v", at, err)
	}
	if at, err := gateway.record(ctx, testScopes, hashOf(token), true); !errors.Is(err, redisconn.ErrNotVouched) {
		t.Errorf("a revoked token: %q, %v", at, err)
	}
	if _, _, err := gateway.floors(ctx, ownedBy(credential, ""), true); err != nil {
		t.Errorf("floors on a server that was left alone: %v", err)
	}
	owner := fmt.Sprint(c.of(0, func(i int) string { return contract.RedisCredentialKey(testPlane, fmt.Sprint(i)) }))
	if _, _, err := gateway.floors(ctx, ownedBy(owner, ""), true); !errors.Is(err, redisconn.ErrNotVouched) {
		t.Errorf("floors on the one that was replaced: %v", err)
	}
}
