package mesh_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/net/websocket"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("what passes two sidecars", Ordered, ContinueOnFailure, core, func() {
	var (
		w        *world
		web      *member
		host     *member
		backends []*member
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		for _, name := range []string{"backend-1", "backend-2", "backend-3"} {
			backends = append(backends, w.start(name, tags{service: "backend"}))
		}
		for _, name := range []string{"ledger-1", "ledger-2", "ledger-3"} {
			w.join(w.around(name, nil, framework.StartEcho(name), tags{service: "ledger", protocol: "tcp"})).WaitReady()
		}
		chat := w.join(w.around("chat-1", nil, startChat(), tags{service: "chat", protocol: "http"}))
		// One proxy is known by a name, beside it one that no resolver knows.
		host = w.describe("named-1", tags{service: "named"})
		host.doc["networking"].(map[string]any)["address"] = "localhost"
		lost := w.describe("named-2", tags{service: "named"})
		lost.doc["networking"].(map[string]any)["advertisedAddress"] = "nobody.invalid"
		w.Put("dataplanes", lost.doc)
		web = w.start("web-1", tags{service: "web"}, "backend", "ledger", "chat", "named")
		w.ready(append(backends, web, chat, w.join(host))...)
		answers(web.to("backend"), 200)
	})

	// counted is how many requests each instance of backend answers.
	counted := func(n int) map[string]int {
		seen := map[string]int{}
		client := &http.Client{}
		defer client.CloseIdleConnections()
		for range n {
			r, err := framework.Do(client, http.MethodGet, web.to("backend"), http.Header{}, "")
			Expect(err).NotTo(HaveOccurred())
			seen[r.Received().Name]++
		}
		return seen
	}

	// Of 90 requests, 30 are expected at each of three endpoints and 4.5 is the
	// standard deviation; fewer than 5 happen once in ten million runs.
	for _, balancer := range []string{"roundRobin", "leastRequest", "random", "ringHash", "maglev"} {
		It(balancer+" spreads requests and connections over all endpoints", func() {
			conf := map[string]any{}
			if balancer == "ringHash" {
				conf["hashFunction"] = "XX_HASH"
			}
			spread := func(to string) map[string]any {
				return map[string]any{"destination": tags{service: to}, "loadBalancer": map[string]any{balancer: conf}}
			}
			w.route(spread("backend"))
			w.Put("traffic-routes", policy("TrafficRoute", "to-ledger", tags{service: "*"}, tags{service: "ledger"}, spread("ledger")))
			w.Converged()
			seen := counted(90)
			AddReportEntry(balancer+", requests", seen)
			Expect(seen).To(And(HaveLen(3), HaveEach(BeNumerically(">=", 5))))
			connections := map[string]int{}
			for range 60 {
				conn, lines := dialEcho(web.port2("ledger"))
				connections[strings.TrimSuffix(conn.say(lines, "x"), " x")]++
				Expect(conn.Close()).To(Succeed())
			}
			AddReportEntry(balancer+", connections", connections)
			Expect(connections).To(And(HaveLen(3), HaveEach(BeNumerically(">=", 2))))
		})
	}

	It("the value of a header that a route adds is what was written, whatever signs it has", func() {
		const value = "50% of %REQ(X-SECRET)% and %%"
		header := map[string]any{"add": []any{map[string]any{"name": "x-share", "value": value}}}
		w.route(map[string]any{"destination": tags{service: "backend"}, "http": []any{map[string]any{
			"match": map[string]any{"path": map[string]any{"prefix": "/"}}, "destination": tags{service: "backend"},
			"modify": map[string]any{"requestHeaders": header, "responseHeaders": header},
		}}})
		w.Converged()
		r, err := get(web.to("backend"))
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Received().Headers.Get("X-Share")).To(Equal(value))
		Expect(r.Header.Get("X-Share")).To(Equal(value))
	})

	It("endpoints may have names, and those that cannot be resolved get nothing", func() {
		for range 20 {
			r, err := get(web.to("named"))
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Received().Name).To(Equal("named-1"))
		}
		Expect(web.Stat("cluster.named-by-name.ssl.handshake")).To(BeNumerically(">", 0))
		Expect(web.Stat("cluster.named-by-name.membership_total")).To(Equal(1))
	})

	It("a service turns from names to addresses and back under load, without a failed request", func() {
		w.Delete(shop, "dataplanes", "named-2")
		load := framework.StartTraffic(web.to("named"), http.Header{}, 1)
		for n := range 4 {
			host.doc["networking"].(map[string]any)["address"] = []string{"127.0.0.1", "localhost"}[n%2]
			w.Put("dataplanes", host.doc)
			w.Converged()
			load.Served(50)
		}
		none(load)
	})

	It("a WebSocket is opened, carries messages both ways and is closed", func() {
		config, err := websocket.NewConfig("ws://"+web.port2("chat")+"/room?x=1", "http://shop.test")
		Expect(err).NotTo(HaveOccurred())
		config.Dialer = &net.Dialer{Timeout: patience}
		conn, err := config.DialContext(bounded(""))
		Expect(err).NotTo(HaveOccurred())
		Expect(conn.SetDeadline(time.Now().Add(patience))).To(Succeed())
		for _, text := range []string{"one", strings.Repeat("long ", 50_000), "three"} {
			Expect(websocket.Message.Send(conn, text)).To(Succeed())
			var got string
			Expect(websocket.Message.Receive(conn, &got)).To(Succeed())
			Expect(got).To(Equal("/room?x=1 " + text))
		}
		Expect(websocket.Message.Send(conn, "bye")).To(Succeed())
		var got string
		Expect(websocket.Message.Receive(conn, &got)).To(MatchError("EOF"), "the workload closes and the client hears of it")
		Expect(conn.Close()).To(Succeed())
	})
})

// startChat starts a WebSocket server that sends back the address it was asked for
// with each message, until one says bye. It returns its port.
func startChat() int {
	server := httptest.NewServer(websocket.Handler(func(conn *websocket.Conn) {
		conn.MaxPayloadBytes = 1 << 20
		for {
			var text string
			if err := websocket.Message.Receive(conn, &text); err != nil || text == "bye" {
				return
			}
			if err := websocket.Message.Send(conn, conn.Request().URL.RequestURI()+" "+text); err != nil {
				return
			}
		}
	}))
	DeferCleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).Port
}
