package mesh_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("permissions", Ordered, core, func() {
	var (
		w                    *world
		web, backend, ledger *member
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		backend = w.start("backend-1", tags{service: "backend"})
		ledger = w.join(w.around("ledger-1", nil, framework.StartEcho("ledger-1"), tags{service: "ledger", protocol: "tcp"}))
		web = w.start("web-1", tags{service: "web"}, "backend", "ledger")
		w.ready(web, backend, ledger)
		answers(web.to("backend"), 200)
	})

	// allow makes a permission the only one.
	allow := func(from, to string) {
		w.Put("traffic-permissions", policy("TrafficPermission", "only", tags{service: from}, tags{service: to}, nil))
		w.Converged()
	}

	It("a permission taken away is refused at once, also on connections that are open", func() {
		open := keepAlive(web.port2("backend"))
		Expect(open.get()).To(Equal(200))
		since := time.Now()
		w.Delete(shop, "traffic-permissions", allowAll)
		measured("refused on an open connection after", since, func() bool {
			got := open.get()
			Expect(got).To(BeElementOf(200, 403))
			return got == 403
		})
		Expect(open.reconnected()).To(BeFalse(), "the answer came on the connection of before")
		Expect(called(web.to("backend"))).To(Equal(403))
		Expect(backend.Stats()).To(HaveKeyWithValue(ContainSubstring(".rbac.denied"), BeNumerically(">", 0)))
	})

	It("once the proxies have confirmed it, not one more request passes on an open connection", func() {
		for range 5 {
			allow("web", "backend")
			answers(web.to("backend"), 200)
			open := keepAlive(web.port2("backend"))
			Expect(open.get()).To(Equal(200))
			w.Delete(shop, "traffic-permissions", "only")
			w.Converged()
			Expect(open.get()).To(Equal(403))
			Expect(open.reconnected()).To(BeFalse())
		}
	})

	// Each worker of a proxy takes a change for itself. What a proxy has confirmed must hold at all of
	// them, so all are asked at once, by connections of two callers that have several workers, too.
	It("once the proxies have confirmed it, no worker lets one more request pass on any open connection", func() {
		allow("*", "*")
		many := w.join(w.describe("many-1", tags{service: "many"}), workers...)
		var callers []*member
		for i := range 2 {
			callers = append(callers, w.join(w.describe(fmt.Sprintf("busy-%d", i+1), tags{service: "busy"}, "many"), workers...))
		}
		w.ready(append(callers, many)...)
		Expect(many.Stat("server.concurrency")).To(Equal(4))
		for round := range 10 {
			allow("busy", "many")
			var open []*kept
			for i := range 16 {
				c := callers[i%2]
				answers(c.to("many"), 200)
				open = append(open, keepAlive(c.port2("many")))
			}
			Expect(together(open)).To(HaveEach(200))
			w.Delete(shop, "traffic-permissions", "only")
			w.Converged()
			Expect(together(open)).To(HaveEach(403), "round %d", round)
			for _, o := range open {
				Expect(o.reconnected()).To(BeFalse())
			}
		}
	})

	It("who is permitted is told by the certificate", func() {
		allow("web", "backend")
		answers(web.to("backend"), 200)
		allow("other", "backend")
		Expect(called(web.to("backend"))).To(Equal(403))
		allow("web", "ledger")
		Expect(called(web.to("backend"))).To(Equal(403), "a permission for another destination")
	})

	It("a TCP service refuses new connections at once and open ones after a short drain", func() {
		allow("web", "*")
		conn, lines := dialEcho(web.port2("ledger"))
		Expect(conn.say(lines, "one")).To(Equal("ledger-1 one"))
		since := time.Now()
		w.Delete(shop, "traffic-permissions", "only")
		measured("new TCP connections refused after", since, func() bool {
			c, l := dialEcho(web.port2("ledger"))
			defer func() { _ = c.Close() }()
			return c.say(l, "new") == ""
		})
		// What is promised is the time that Envoy gives connections to drain, and that
		// they end by it; a busy machine may be late with everything.
		var info struct {
			Options struct {
				DrainTime string `json:"drain_time"`
			} `json:"command_line_options"`
		}
		text, err := ledger.Admin("/server_info")
		Expect(err).NotTo(HaveOccurred())
		Expect(json.Unmarshal([]byte(text), &info)).To(Succeed())
		Expect(info.Options.DrainTime).To(Equal("5s"))
		measured("open TCP connection ended after", since, func() bool { return conn.say(lines, "still") == "" })
	})
})

// port2 is the address of the port that leads to a service.
func (m *member) port2(name string) string { return fmt.Sprintf("127.0.0.1:%d", m.out[name]) }

// workers are the arguments of a proxy with several workers.
var workers = []string{"--envoy-concurrency", "4"}

// together asks on all connections at once and returns the statuses.
func together(open []*kept) []int {
	statuses := make([]int, len(open))
	var all sync.WaitGroup
	for i, o := range open {
		all.Go(func() { statuses[i] = o.get() })
	}
	all.Wait()
	return statuses
}

// kept is one HTTP connection that is never replaced unnoticed.
type kept struct {
	address string
	header  http.Header
	client  *http.Client
	dialled atomic.Int64
}

// reconnected reports whether the first connection has ended.
func (k *kept) reconnected() bool { return k.dialled.Load() > 1 }

func keepAlive(address string) *kept {
	k := &kept{address: address}
	transport := &http.Transport{MaxConnsPerHost: 1, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		k.dialled.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	DeferCleanup(transport.CloseIdleConnections)
	k.client = &http.Client{Transport: transport, Timeout: 10 * time.Second}
	return k
}

// get asks and returns the status; 0 without an answer.
func (k *kept) get() int {
	r, err := framework.Do(k.client, http.MethodGet, "http://"+k.address, k.header, "")
	if err != nil {
		return 0
	}
	return r.Status
}

// echo is a connection to a server that answers line by line.
type echo struct{ net.Conn }

func dialEcho(address string) (echo, *bufio.Reader) {
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = conn.Close() })
	return echo{conn}, bufio.NewReader(conn)
}

// say sends a line and returns the answer, or nothing if the other side has ended
// the connection. One that hangs, with neither, fails the spec.
func (e echo) say(lines *bufio.Reader, text string) string {
	_ = e.SetDeadline(time.Now().Add(patience))
	_, err := fmt.Fprintln(e, text)
	answer := ""
	if err == nil {
		answer, err = lines.ReadString('\n')
	}
	if err != nil {
		ExpectWithOffset(1, err).NotTo(MatchError(os.ErrDeadlineExceeded), "neither answered nor ended")
		return ""
	}
	return answer[:len(answer)-1]
}
