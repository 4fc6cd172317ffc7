package mesh_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/net/websocket"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("what clients of a gateway of the mesh are given", Ordered, ContinueOnFailure, func() {
	var (
		w       *world
		plain   entry
		gateway *framework.Sidecar
	)
	selectors := []any{map[string]any{"match": tags{service: "edge"}}}
	// listener is what the Envoy of the gateway says of its listener.
	listener := func() string {
		GinkgoHelper()
		text, err := gateway.Admin(fmt.Sprintf("/config_dump?resource=dynamic_listeners&name_regex=gateway:127.0.0.1:%d", plain.port))
		Expect(err).NotTo(HaveOccurred())
		return text
	}
	// edge gives the gateway its listener, with what it says of resources.
	edge := func(resources map[string]any) {
		GinkgoHelper()
		l := map[string]any{"port": plain.port, "protocol": "HTTP"}
		if resources != nil {
			l["resources"] = resources
		}
		w.Put("meshgateways", framework.Document{
			"type": "MeshGateway", "mesh": shop, "name": "edge", "selectors": selectors, "conf": map[string]any{"listeners": []any{l}},
		})
	}

	BeforeAll(func() {
		w = newWorld("STRICT")
		plain = entry{port: framework.FreePorts(1)[0], host: "any.example"}
		backend := w.start("backend-1", tags{service: "backend"})
		chat := w.join(w.around("chat-1", nil, startChat(), tags{service: "chat", protocol: "http"}))
		edge(nil)
		rule := func(path, to string) any {
			return map[string]any{"matches": []any{map[string]any{"path": map[string]any{"match": "PREFIX", "value": path}}}, "backends": []any{map[string]any{"weight": 1, "destination": tags{service: to}}}}
		}
		w.Put("meshgatewayroutes", framework.Document{"type": "MeshGatewayRoute", "mesh": shop, "name": "all", "selectors": selectors, "conf": map[string]any{
			"http": map[string]any{"rules": []any{rule("/", "backend"), rule("/room", "chat")}},
		}})
		w.Put("dataplanes", framework.Document{"type": "Dataplane", "mesh": shop, "name": "edge-1", "networking": map[string]any{
			"address": "127.0.0.1", "gateway": map[string]any{"type": "BUILTIN", "tags": tags{service: "edge"}},
		}})
		gateway = framework.NewSidecar(w.cp, shop, "edge-1", "", "--proxy-type", "gateway").Start()
		w.ready(backend, chat)
		gateway.WaitReady()
		w.Converged()
		Eventually(func() int { return plain.status("/") }, patience, 20*time.Millisecond).Should(Equal(200))
	})

	It("time to send a request, which ends no stream that is answered", func() {
		Expect(listener()).To(ContainSubstring(`"request_timeout": "300s"`))
		// A second instead of five minutes, so that the end is seen.
		w.Put("proxytemplates", framework.Document{
			"type": "ProxyTemplate", "mesh": shop, "name": "hasty", "selectors": selectors,
			"conf": map[string]any{"imports": []any{"default-proxy"}, "modifications": []any{map[string]any{"networkFilter": map[string]any{
				"operation": "patch", "match": map[string]any{"name": "envoy.filters.network.http_connection_manager"},
				"value": `{name: envoy.filters.network.http_connection_manager, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager, request_timeout: 1s}}`,
			}}}},
		})
		DeferCleanup(func() { w.Delete(shop, "proxytemplates", "hasty") })
		w.Converged()
		Eventually(listener, patience, 20*time.Millisecond).Should(ContainSubstring(`"request_timeout": "1s"`))

		dial := func() net.Conn {
			GinkgoHelper()
			tcp, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", plain.port)) //nolint:noctx // a test
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(tcp.Close)
			Expect(tcp.SetDeadline(time.Now().Add(patience))).To(Succeed())
			return tcp
		}
		config, err := websocket.NewConfig(fmt.Sprintf("ws://127.0.0.1:%d/room", plain.port), "http://any.example")
		Expect(err).NotTo(HaveOccurred())
		room, err := websocket.NewClient(config, dial())
		Expect(err).NotTo(HaveOccurred())
		says := func(text string) {
			GinkgoHelper()
			Expect(websocket.Message.Send(room, text)).To(Succeed())
			var got string
			Expect(websocket.Message.Receive(room, &got)).To(Succeed())
			Expect(got).To(Equal("/room " + text))
		}
		says("before")

		// A body that does not come: without the limit the client could wait for five minutes between any two
		// of its bytes.
		slow := dial()
		_, err = io.WriteString(slow, "POST / HTTP/1.1\r\nHost: any.example\r\nContent-Length: 10\r\n\r\nab")
		Expect(err).NotTo(HaveOccurred())
		resp, err := http.ReadResponse(bufio.NewReader(slow), nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(resp.Body.Close()).To(Succeed())
		Expect(resp.StatusCode).To(Equal(http.StatusRequestTimeout))
		says("after")
		Expect(gateway.Stat(fmt.Sprintf("http.edge_HTTP_%d.downstream_rq_timeout", plain.port))).To(Equal(1), "of the two the stream was not ended")
	})

	It("connections, as many as nobody said otherwise", func() {
		Expect(listener()).To(ContainSubstring(`"max_connections": "10000"`))
		stat := func(name string) func() int {
			return func() int { return gateway.Stat(fmt.Sprintf("connection_limit.edge_HTTP_%d.%s", plain.port, name)) }
		}
		c := plain.client(nil)
		defer c.CloseIdleConnections()
		_, err := plain.ask(c, http.MethodGet, "/")
		Expect(err).NotTo(HaveOccurred())
		Expect(stat("active_connections")()).To(BeNumerically(">", 0))

		edge(map[string]any{"connectionLimit": 1})
		w.Converged()
		Eventually(listener, patience, 20*time.Millisecond).Should(ContainSubstring(`"max_connections": "1"`))
		// The connection of before is drained. The next one that stays has the place.
		Eventually(func() string {
			if r, err := plain.ask(c, http.MethodGet, "/"); err != nil || r.Status != http.StatusOK {
				return "refused"
			}
			return fmt.Sprintf("another client gets %d", plain.status("/"))
		}, patience, 20*time.Millisecond).Should(Equal("another client gets 0"), "its connection is closed")
		Expect(stat("limited_connections")()).To(BeNumerically(">", 0))
		edge(nil)
		w.Converged()
		Eventually(func() int { return plain.status("/") }, patience, 20*time.Millisecond).Should(Equal(200))
	})

	It("any time where a Timeout sets no limit", func() {
		Eventually(listener, patience, 20*time.Millisecond).Should(ContainSubstring(`"request_timeout": "300s"`))
		w.Put("timeouts", policy("Timeout", "uploads", tags{service: "edge"}, tags{service: "backend"}, map[string]any{"http": map[string]any{"idleTimeout": "1h"}}))
		DeferCleanup(func() { w.Delete(shop, "timeouts", "uploads") })
		w.Converged()
		Eventually(listener, patience, 20*time.Millisecond).ShouldNot(ContainSubstring(`"request_timeout"`))
	})
})
