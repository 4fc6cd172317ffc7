package redises_test

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// What a Redis can do to those who use it. In each case tokens are issued,
// accepted and revoked; without the control plane, too, the gateways refuse what
// was revoked, and say that they cannot know where they cannot.
var _ = Describe("A Redis", func() {
	var (
		redis *framework.Redis
		road  *framework.Road
		w     *world
		load  *framework.Load
	)

	BeforeEach(func() {
		redis = framework.StartRedis("--maxmemory-policy", "noeviction")
		road = framework.StartRoad(redis.Port)
		url := fmt.Sprintf("redis://127.0.0.1:%d", road.Port)
		w = newWorld(url, url, redis.Reads, value(redis.CLI))
		w.story()
		w.readable(w.good)
		load = framework.StartLoad(w.f, w.gateways[0].HTTP, w.good, 2)
		load.Served(100)
	})

	served := func() {
		GinkgoHelper()
		load.Served(100)
		total, failures := load.Stop()
		Expect(failures).To(BeEmpty(), "of %d requests", total)
	}

	DescribeTable("hurts nobody when it", func(hurt, heal func()) {
		hurt()
		w.story()
		w.story()
		served()
		w.stranded()
		heal()
		w.noneReturns()
		w.back()
		w.alone()
	},
		Entry("is cut off, and nobody is told", func() { road.Block() }, func() { road.Open() }),
		Entry("answers after the gateways gave up", func() { road.Slow(150 * time.Millisecond) }, func() { road.Open() }),
		Entry("answers after everybody gave up", func() { road.Slow(time.Second) }, func() { road.Open() }),
		Entry("stands still", func() { redis.Pause() }, func() { redis.Resume() }),
		Entry("has no memory left", func() { redis.CLI("CONFIG", "SET", "maxmemory", "1") }, func() { redis.CLI("CONFIG", "SET", "maxmemory", "0") }),
		Entry("becomes a replica", func() { redis.CLI("REPLICAOF", "127.0.0.1", "1") }, func() { redis.CLI("REPLICAOF", "NO", "ONE") }),
		Entry("is killed", func() { redis.Kill() }, func() { redis.Restart() }),
	)

	It("may be slow", func() {
		road.Slow(10 * time.Millisecond)
		w.story()
		served()
		w.alone()
	})

	It("may lose everything", func() {
		before := w.epoch()
		redis.CLI("FLUSHALL")
		w.replaced(before)
		served()
		w.alone()
	})

	It("may come back with an old state", func() {
		old := w.mint()
		Expect(w.everywhere(old)).To(accepted())
		image, before := redis.Save(), w.epoch()
		w.f.Must(204, "DELETE", "/oauth2_tokens/"+old, nil)
		w.gone = append(w.gone, old)
		redis.Kill()
		redis.RestartFrom(image)
		w.noneReturns()
		w.replaced(before)
		served()
		w.alone()
	})
})

var _ = Describe("What is no Redis", func() {
	DescribeTable("hurts nobody when it answers with", func(answer string) {
		// A new store has its first Redis put in order before it confirms a revocation.
		road := framework.StartRoad(framework.StartRedis("--maxmemory-policy", "noeviction").Port)
		url := fmt.Sprintf("redis://127.0.0.1:%d", road.Port)
		w := newWorld(url, url, nil, nil)
		w.f.Must(204, "DELETE", "/oauth2_tokens/"+w.mint(), nil)
		road.Lead(babble(answer))
		w.story()
		w.story()
		w.stranded()
		w.back()
	},
		Entry("another protocol", "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
		Entry("noise", "\x16\x03\x01\x00\xff\x00*$\r\n$-7\r\n*x\r\n"),
		Entry("announcements of what would not fit into any memory", "$2147483647\r\n*2147483647\r\n"),
		Entry("OK to everything", "+OK\r\n"),
	)
})

// babble says the same to everything it is told.
func babble(answer string) (port int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	var (
		mu    sync.Mutex
		conns []net.Conn
		over  bool
		all   sync.WaitGroup
	)
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			if over { // it was accepted just before the end
				_ = conn.Close()
			}
			conns = append(conns, conn)
			mu.Unlock()
			all.Go(func() {
				defer conn.Close()
				for piece := make([]byte, 4096); ; {
					if _, err := conn.Read(piece); err != nil {
						return
					}
					if _, err := io.WriteString(conn, answer); err != nil {
						return
					}
				}
			})
		}
	})
	DeferCleanup(func() {
		_ = l.Close()
		mu.Lock()
		over = true
		for _, conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return l.Addr().(*net.TCPAddr).Port
}
