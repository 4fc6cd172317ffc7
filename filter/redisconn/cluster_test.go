package redisconn

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// startCluster runs three primaries and a replica of the first.
func startCluster(t *testing.T) (ports [4]string, servers [4]*exec.Cmd) {
	t.Helper()
	slots := []string{"0 5460", "5461 10922", "10923 16383"}
	for i := range ports {
		ports[i] = freePort(t)
		bus := freePort(t)
		servers[i] = startRedis(t, ports[i], "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0")
		if i < len(slots) {
			redisCLI(t, ports[i], append([]string{"CLUSTER", "ADDSLOTSRANGE"}, strings.Fields(slots[i])...)...)
		}
		redisCLI(t, ports[i], "CLUSTER", "SET-CONFIG-EPOCH", fmt.Sprint(i+1))
		if i > 0 {
			redisCLI(t, ports[0], "CLUSTER", "MEET", "127.0.0.1", ports[i], bus)
		}
	}
	first := redisCLI(t, ports[0], "CLUSTER", "MYID")
	until(t, "the replica knows its primary", func() bool {
		return strings.Contains(redisCLI(t, ports[3], "CLUSTER", "NODES"), first) && redisCLI(t, ports[3], "CLUSTER", "REPLICATE", first) == "OK"
	})
	for _, port := range ports {
		until(t, "the cluster is whole", func() bool {
			return strings.Contains(redisCLI(t, port, "CLUSTER", "INFO"), "cluster_state:ok") && strings.Count(redisCLI(t, port, "CLUSTER", "NODES"), "\n") == 3 &&
				strings.Contains(redisCLI(t, port, "CLUSTER", "NODES"), "slave")
		})
	}
	until(t, "the replica follows", func() bool {
		return strings.Contains(redisCLI(t, ports[3], "INFO", "replication"), "master_link_status:up")
	})
	return ports, servers
}

// TestCluster: all primaries are identified and written to, moved slots and
// replaced primaries are found again, by users who may do little.
func TestCluster(t *testing.T) {
	t.Parallel()
	ports, servers := startCluster(t)
	for _, port := range ports {
		redisCLI(t, port, "ACL", "SETUSER", "u", "on", ">p", "~*", "-@all", "+get", "+set", "+info", "+cluster|slots")
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	c := opened(t, Options{Settings: settings("redis+cluster://u:p@127.0.0.1:" + ports[1] + ",127.0.0.1:" + ports[0]), OnConnect: func(_ context.Context, info func() (Server, error)) error {
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
	redisCLI(t, ports[0], "--cluster", "reshard", "127.0.0.1:"+ports[0], "--cluster-from", redisCLI(t, ports[0], "CLUSTER", "MYID"),
		"--cluster-to", redisCLI(t, ports[2], "CLUSTER", "MYID"), "--cluster-slots", "2000", "--cluster-yes")
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
	_ = servers[0].Process.Kill()
	until(t, "the replica takes over", func() bool { return redisCLI(t, ports[3], "CLUSTER", "FAILOVER", "TAKEOVER") == "OK" })
	until(t, "the new primary is met and not used", func() bool { return errors.Is(everywhere(), errStranger) })
	until(t, "it is used once it was identified", func() bool {
		all, err := Pin(t.Context(), c)
		return err == nil && len(all) == 3
	})
	until(t, "the new primary is written to", func() bool { return everywhere() == nil })
	until(t, "the new primary is identified", func() bool { ids := identify(); return len(ids) == 3*41 && ids != before })
}

// TestClusterWithoutPrimaries: what cannot be identified is an error.
func TestClusterWithoutPrimaries(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	startRedis(t, port, "--cluster-enabled", "yes", "--cluster-port", freePort(t))
	c := opened(t, Options{Settings: settings("redis+cluster://127.0.0.1:" + port)})
	if all, err := Identify(t.Context(), c); err == nil {
		t.Errorf("%v", all)
	}
	plain := freePort(t)
	startRedis(t, plain)
	c = opened(t, Options{Settings: settings("redis+cluster://127.0.0.1:" + plain)})
	if err := c.Get(t.Context(), "x").Err(); err == nil || errors.Is(err, redis.Nil) {
		t.Errorf("a server that is no cluster: %v", err)
	}
}
