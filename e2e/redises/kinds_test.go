package redises_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// page is docs/redis.md.
func page() string {
	data, err := os.ReadFile(filepath.Join(framework.Root(), "docs", "redis.md"))
	Expect(err).NotTo(HaveOccurred())
	return string(data)
}

// block is the first block of the page in a language.
func block(language string) string {
	_, rest, found := strings.Cut(page(), "```"+language+"\n")
	Expect(found).To(BeTrue(), language)
	text, _, found := strings.Cut(rest, "```")
	Expect(found).To(BeTrue(), language)
	return text
}

// rules are what the page gives a user.
func rules(user string) []string {
	_, rest, found := strings.Cut(block("conf"), "user "+user+" on >")
	Expect(found).To(BeTrue(), user)
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Fields(line)[1:]
}

// value reads single values with redis-cli.
func value(cli func(args ...string) string, options ...string) func(key string) string {
	return func(key string) string { return cli(append(slices.Clone(options), "GET", key)...) }
}

var _ = Describe("A Redis", func() {
	It("with users and TLS works as the page sets it up", func() {
		dir := GinkgoT().TempDir()
		script := exec.Command("bash", "-euo", "pipefail", "-c", block("sh"))
		script.Dir = dir
		out, err := script.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
		tls := framework.FreePorts(1)[0]
		// The test looks at the server by a port without TLS.
		conf := strings.NewReplacer("port 0\n", "", "tls-port 6379", "tls-port "+strconv.Itoa(tls), "/etc/redis/", dir+"/",
			"user default off", "user default on nopass ~* &* +@all").Replace(block("conf"))
		file := filepath.Join(dir, "redis.conf")
		Expect(os.WriteFile(file, []byte(conf), 0o600)).To(Succeed())
		redis := framework.StartRedisFrom(file)
		w := newWorldOf(strings.NewReplacer("redis.example:6379", "127.0.0.1:"+strconv.Itoa(tls), "/etc/meshgate/", dir+"/").Replace(block("yaml")), redis.Reads, value(redis.CLI))
		w.story()
		w.alone()
		for _, g := range w.gateways {
			told, err := os.ReadFile(filepath.Join(g.StateDir, "run", g.Name, "level2.json"))
			Expect(err).NotTo(HaveOccurred())
			Expect(string(told)).To(And(ContainSubstring("dataplane:"), Not(ContainSubstring("controlplane:"))))
		}
		Expect(redis.CLI("ACL", "LOG")).To(BeEmpty(), "nobody was refused anything")
	})

	It("on a Unix socket", func() {
		socket := filepath.Join(GinkgoT().TempDir(), "redis.sock")
		redis := framework.StartRedis("--unixsocket", socket)
		w := newWorld("unix://"+socket+"?db=2", "unix://"+socket+"?db=2", redis.Reads, value(redis.CLI, "-n", "2"))
		w.story()
		w.alone()
	})

	It("that is named without a scheme", func() {
		redis := framework.StartRedis()
		address := fmt.Sprintf("127.0.0.1:%d", redis.Port)
		w := newWorld(address, address, redis.Reads, value(redis.CLI))
		w.story()
		w.alone()
	})
})

var _ = Describe("Sentinels", func() {
	var (
		pair *framework.RedisPair
		w    *world
	)

	BeforeEach(func() {
		pair = framework.StartRedisPair()
		w = newWorld(pair.URL(), pair.URL(), pair.Servers[0].Reads, value(pair.Servers[0].CLI))
		w.story()
	})

	// second waits until the second server is used, after the epoch of the first.
	second := func(before string) {
		GinkgoHelper()
		pair.AwaitPrimary(pair.Servers[1])
		w.reads, w.get = pair.Servers[1].Reads, value(pair.Servers[1].CLI)
		w.replaced(before)
	}

	It("replace the primary by request", func() {
		w.alone()
		load := framework.StartLoad(w.f, w.gateways[0].HTTP, w.good, 2)
		load.Served(100)
		before := w.epoch()
		pair.Sentinels[0].CLI("SENTINEL", "FAILOVER", framework.MasterName)
		w.story()
		second(before)
		load.Served(100)
		total, failures := load.Stop()
		Expect(failures).To(BeEmpty(), "of %d requests", total)
		w.alone()
	})

	It("replace a primary that was killed", func() {
		load := framework.StartLoad(w.f, w.gateways[0].HTTP, w.good, 2)
		load.Served(100)
		before := w.epoch()
		pair.Servers[0].Kill()
		w.story()
		second(before)
		load.Served(100)
		total, failures := load.Stop()
		Expect(failures).To(BeEmpty(), "of %d requests", total)
		w.alone()
	})

	It("replace a primary that stands still and comes back", func() {
		before := w.epoch()
		pair.Servers[0].Pause()
		DeferCleanup(pair.Servers[0].Resume)
		w.story()
		second(before)
		pair.Servers[0].Resume()
		w.story()
		w.alone()
	})
})

var _ = Describe("A cluster", func() {
	const clock = "meshgate:clock"
	var (
		cluster *framework.RedisCluster
		w       *world
	)

	BeforeEach(func() {
		cluster = framework.StartRedisCluster()
	})

	open := func(url, nodeURL string) {
		GinkgoHelper()
		w = newWorld(url, nodeURL, cluster.Reads, value(cluster.CLI))
		w.story()
	}

	It("serves, and moves its slots meanwhile", func() {
		open(cluster.URL(), cluster.URL())
		w.alone()
		load := framework.StartLoad(w.f, w.gateways[0].HTTP, w.good, 2)
		load.Served(100)
		from := cluster.Owner(clock)
		to := cluster.Servers[0]
		if to == from {
			to = cluster.Servers[1]
		}
		cluster.Reshard(from, to, 5461)
		Expect(cluster.Owner(clock)).NotTo(BeIdenticalTo(from))
		w.story()
		load.Served(100)
		total, failures := load.Stop()
		Expect(failures).To(BeEmpty(), "of %d requests", total)
		w.alone()
	})

	It("replaces a primary that was killed", func() {
		open(cluster.URL(), cluster.URL())
		load := framework.StartLoad(w.f, w.gateways[0].HTTP, w.good, 2)
		load.Served(100)
		killed, before := cluster.Owner(clock), w.epoch()
		killed.Kill()
		w.story()
		var left []*framework.Redis
		for _, s := range cluster.Servers {
			if s != killed {
				left = append(left, s)
			}
		}
		cluster.AwaitWhole(left...)
		w.replaced(before)
		load.Served(100)
		total, failures := load.Stop()
		Expect(failures).To(BeEmpty(), "of %d requests", total)
		w.alone()
	})

	It("serves users who may do no more than the page says", func() {
		for _, s := range cluster.Servers {
			s.User("controlplane", rules("controlplane")...)
			s.User("dataplane", rules("dataplane")...)
		}
		as := func(user string) string { return strings.Replace(cluster.URL(), "://", "://"+user+":"+user+"@", 1) }
		open(as("controlplane"), as("dataplane"))
		w.alone()
		for _, s := range cluster.Servers {
			Expect(s.CLI("ACL", "LOG")).To(BeEmpty(), "nobody was refused anything")
		}
	})
})
