package framework

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
)

// settling bounds what servers take to start, and to find out about each other. Sentinels that did not
// agree whom to elect wait for twelve seconds before they try again.
const settling = 90 * time.Second

// MasterName is what sentinels call the primary.
const MasterName = "tokens"

// RedisPair is a primary and a replica that sentinels watch.
type RedisPair struct {
	Servers   [2]*Redis
	Sentinels [3]*Redis
}

// StartRedisPair starts them, the first as the primary, and waits until the
// sentinels could replace it.
func StartRedisPair() *RedisPair {
	p := &RedisPair{}
	p.Servers[0] = StartRedis("--repl-diskless-sync-delay", "0")
	p.Servers[1] = StartRedis("--replicaof", fmt.Sprintf("127.0.0.1 %d", p.Servers[0].Port), "--repl-diskless-sync-delay", "0")
	for i := range p.Sentinels {
		s := &Redis{Port: FreePorts(1)[0], dir: ginkgo.GinkgoT().TempDir()}
		file := filepath.Join(s.dir, "sentinel.conf")
		gomega.Expect(os.WriteFile(file, fmt.Appendf(nil, `port %d
bind 127.0.0.1
dir %s
sentinel monitor %[3]s 127.0.0.1 %[4]d 2
sentinel down-after-milliseconds %[3]s 1000
sentinel failover-timeout %[3]s 6000
`, s.Port, s.dir, MasterName, p.Servers[0].Port), 0o600)).To(gomega.Succeed())
		s.process = Start(nil, "redis-server", file, "--sentinel")
		p.Sentinels[i] = s
	}
	gomega.Eventually(func(g gomega.Gomega) {
		g.Expect(p.Servers[1].CLI("INFO", "replication")).To(gomega.ContainSubstring("master_link_status:up"))
		for _, s := range p.Sentinels {
			g.Expect(s.tryCLI("SENTINEL", "CKQUORUM", MasterName)).To(gomega.HavePrefix("OK 3 usable Sentinels"))
			g.Expect(s.tryCLI("SENTINEL", "replicas", MasterName)).To(gomega.ContainSubstring("master-link-status\nok"))
		}
	}, settling, 50*time.Millisecond).Should(gomega.Succeed())
	return p
}

// URL is how to find the primary.
func (p *RedisPair) URL() string {
	var hosts []string
	for _, s := range p.Sentinels {
		hosts = append(hosts, fmt.Sprintf("127.0.0.1:%d", s.Port))
	}
	return fmt.Sprintf("redis+sentinel://%s/%s", strings.Join(hosts, ","), MasterName)
}

// AwaitPrimary waits until all sentinels name that server, and it is one.
func (p *RedisPair) AwaitPrimary(server *Redis) {
	gomega.Eventually(func(g gomega.Gomega) {
		g.Expect(server.tryCLI("INFO", "replication")).To(gomega.ContainSubstring("role:master"))
		for _, s := range p.Sentinels {
			g.Expect(s.tryCLI("SENTINEL", "get-master-addr-by-name", MasterName)).To(gomega.HaveSuffix(strconv.Itoa(server.Port)))
		}
	}, settling, 50*time.Millisecond).Should(gomega.Succeed())
}

// RedisCluster is a cluster of three primaries with a replica each.
type RedisCluster struct {
	Servers [6]*Redis
}

// StartRedisCluster starts it and waits until it is whole.
func StartRedisCluster() *RedisCluster {
	c := &RedisCluster{}
	args := []string{"--cluster", "create"}
	for i := range c.Servers {
		c.Servers[i] = StartRedis("--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(FreePorts(1)[0]),
			"--cluster-node-timeout", "1500", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")
		args = append(args, fmt.Sprintf("127.0.0.1:%d", c.Servers[i].Port))
	}
	c.Servers[0].CLI(append(args, "--cluster-replicas", "1", "--cluster-yes")...)
	c.AwaitWhole(c.Servers[:]...)
	return c
}

// AwaitWhole waits until those servers agree that all slots are served, and
// each replica among them follows its primary.
func (c *RedisCluster) AwaitWhole(servers ...*Redis) {
	gomega.Eventually(func(g gomega.Gomega) {
		for _, s := range servers {
			g.Expect(s.tryCLI("CLUSTER", "INFO")).To(gomega.And(gomega.ContainSubstring("cluster_state:ok"), gomega.ContainSubstring("cluster_slots_ok:16384")))
			g.Expect(s.tryCLI("INFO", "replication")).To(gomega.Or(gomega.ContainSubstring("role:master"), gomega.ContainSubstring("master_link_status:up")))
		}
	}, settling, 50*time.Millisecond).Should(gomega.Succeed())
}

// URL names some of the servers.
func (c *RedisCluster) URL() string {
	return fmt.Sprintf("redis+cluster://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", c.Servers[0].Port, c.Servers[1].Port, c.Servers[2].Port)
}

// CLI runs one command where its key is.
func (c *RedisCluster) CLI(args ...string) string {
	return c.any().CLI(append([]string{"-c"}, args...)...)
}

// any is a server that runs.
func (c *RedisCluster) any() *Redis {
	for _, s := range c.Servers {
		if s.process.Running() {
			return s
		}
	}
	ginkgo.Fail("no server of the cluster runs")
	return nil
}

// Owner is the primary that has a key's slot, as a server that runs sees it.
func (c *RedisCluster) Owner(key string) *Redis {
	seen := c.any()
	slot, err := strconv.Atoi(seen.CLI("CLUSTER", "KEYSLOT", key))
	gomega.Expect(err).NotTo(gomega.HaveOccurred())
	for line := range strings.Lines(seen.CLI("CLUSTER", "NODES")) {
		fields := strings.Fields(line)
		if len(fields) < 9 || !strings.Contains(fields[2], "master") || strings.Contains(fields[2], "fail") {
			continue
		}
		for _, r := range fields[8:] {
			first, last, found := strings.Cut(r, "-")
			if !found {
				last = first
			}
			from, _ := strconv.Atoi(first)
			if to, err := strconv.Atoi(last); err == nil && from <= slot && slot <= to {
				return c.at(fields[1])
			}
		}
	}
	ginkgo.Fail("no primary has " + key)
	return nil
}

// at finds a server by an address such as 127.0.0.1:7000@17000.
func (c *RedisCluster) at(address string) *Redis {
	for _, s := range c.Servers {
		if strings.HasPrefix(address, fmt.Sprintf("127.0.0.1:%d@", s.Port)) {
			return s
		}
	}
	ginkgo.Fail("no server at " + address)
	return nil
}

// Reshard moves slots from one primary to another.
func (c *RedisCluster) Reshard(from, to *Redis, slots int) {
	from.CLI("--cluster", "reshard", fmt.Sprintf("127.0.0.1:%d", from.Port), "--cluster-from", from.CLI("CLUSTER", "MYID"),
		"--cluster-to", to.CLI("CLUSTER", "MYID"), "--cluster-slots", strconv.Itoa(slots), "--cluster-yes")
}

// Reads is how many values were read from all that run.
func (c *RedisCluster) Reads() int {
	n := 0
	for _, s := range c.Servers {
		if s.process.Running() {
			n += s.Reads()
		}
	}
	return n
}
