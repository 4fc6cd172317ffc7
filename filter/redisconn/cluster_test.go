package redisconn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

// TestCluster: all primaries are identified and written to, even by users with few
// permissions. Moved slots and replaced primaries are found again.
func TestCluster(t *testing.T) {
	t.Parallel()
	servers := redistest.StartCluster(t)
	for _, s := range servers {
		s.User(t, "u", "p", "~*", "-@all", "+get", "+set", "+info", "+cluster|slots")
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	c := opened(t, Options{Settings: settings("redis+cluster://u:p@" + servers[1].Address() + "," + servers[0].Address()), OnConnect: func(_ context.Context, info func() (Server, error)) error {
		s, err := info()
		mu.Lock()
		seen[s.RunID] = true
		mu.Unlock()
		return err
	}})
	everywhere := func() error {
		pipe := c.Pipeline()
		for i := range 50 {
			pipe.Set(t.Context(), fmt.Sprint("key", i), i, 0)
		}
		_, err := pipe.Exec(t.Context())
		return err
	}
	if err := everywhere(); err != nil {
		t.Fatal(err)
	}
	identify := func() (ids string) {
		all, err := Identify(t.Context(), c)
		if err != nil {
			return err.Error()
		}
		for _, s := range all {
			if mu.Lock(); s.Role != rolePrimary || !seen[s.RunID] {
				t.Errorf("%+v, seen %v", s, seen)
			}
			mu.Unlock()
			ids += s.RunID + " "
		}
		return ids
	}
	before := identify()
	if len(strings.Fields(before)) != 3 || len(before) != 3*41 {
		t.Fatalf("%q", before)
	}

	t.Log("slots move")
	servers[0].CLI(t, "--cluster", "reshard", servers[0].Address(), "--cluster-from", servers[0].CLI(t, "CLUSTER", "MYID"),
		"--cluster-to", servers[2].CLI(t, "CLUSTER", "MYID"), "--cluster-slots", "2000", "--cluster-yes")
	if err := everywhere(); err != nil {
		t.Error(err)
	}
	if after := identify(); after != before {
		t.Errorf("%q", after)
	}

	t.Log("a primary is replaced")
	if all, err := Pin(t.Context(), c); err != nil || len(all) != 3 {
		t.Fatalf("%v %v", all, err)
	}
	if err := everywhere(); err != nil {
		t.Error(err)
	}
	servers[0].Kill()
	until(t, "the replica takes over", func() bool { return servers[3].CLI(t, "CLUSTER", "FAILOVER", "TAKEOVER") == "OK" })
	until(t, "the new primary is met and not used", func() bool { return errors.Is(everywhere(), errStranger) })
	until(t, "it is used once it was identified", func() bool {
		all, err := Pin(t.Context(), c)
		return err == nil && len(all) == 3
	})
	until(t, "the new primary is written to", func() bool { return everywhere() == nil })
	until(t, "the new primary is identified", func() bool { ids := identify(); return len(ids) == 3*41 && ids != before })
}

// TestClusterWithoutPrimaries: a cluster that cannot be identified is an error.
func TestClusterWithoutPrimaries(t *testing.T) {
	t.Parallel()
	empty := redistest.StartMember(t)
	c := opened(t, Options{Settings: settings("redis+cluster://" + empty.Address())})
	if all, err := Identify(t.Context(), c); err == nil {
		t.Errorf("%v", all)
	}
	plain := redistest.Start(t)
	c = opened(t, Options{Settings: settings("redis+cluster://" + plain.Address())})
	if err := c.Get(t.Context(), "x").Err(); err == nil || errors.Is(err, redis.Nil) {
		t.Errorf("a server that is no cluster: %v", err)
	}
}
