package mesh_test

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/net/websocket"

	"github.com/meshgate/meshgate/e2e/framework"
)

// tunnelled opens a WebSocket by an extended CONNECT (RFC 8441) and returns what the server answers to a
// text, or the status if it is not opened.
func tunnelled(port int, name, path, text string, more ...hpack.HeaderField) string {
	GinkgoHelper()
	conn, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:noctx // a test
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = conn.Close() }()
	Expect(conn.SetDeadline(time.Now().Add(patience))).To(Succeed())
	var block bytes.Buffer
	_, err = io.WriteString(conn, http2.ClientPreface)
	Expect(err).NotTo(HaveOccurred())
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	Expect(framer.WriteSettings()).To(Succeed())
	encoder := hpack.NewEncoder(&block)
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "CONNECT"}, {Name: ":protocol", Value: "websocket"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: name}, {Name: ":path", Value: path},
		{Name: "sec-websocket-version", Value: "13"}, {Name: "sec-websocket-key", Value: "dGhlIHNhbXBsZSBub25jZQ=="}, {Name: "origin", Value: "https://" + name},
	}, more...) {
		Expect(encoder.WriteField(f)).To(Succeed())
	}
	Expect(framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})).To(Succeed())
	var got []byte
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return unanswered
		}
		switch f := frame.(type) {
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return unanswered
		case *http2.MetaHeadersFrame:
			if status := f.PseudoValue("status"); status != "200" {
				return status
			}
			// One frame of text, masked by zeros (RFC 6455 section 5.2).
			Expect(framer.WriteData(1, false, append([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...))).To(Succeed())
		case *http2.DataFrame:
			if got = append(got, f.Data()...); len(got) > 2 && len(got) >= 2+int(got[1]) {
				return string(got[2:])
			}
		}
	}
}

var _ = Describe("tokens at a gateway of the mesh", Ordered, core, func() {
	It("MeshTokenAuth at its listeners: refused without, the consumer's identity with, and at once after its end", func() {
		cp := framework.NewControlPlane("standalone")
		if envoy := otherEnvoy(); envoy != "" {
			cp.Args = append(cp.Args, "--envoy-path", envoy)
		}
		w := adopt(cp.Start(), "STRICT")
		f := framework.NewFixture(cp)
		backend := w.start("backend-1", tags{service: "backend"})
		chat := w.join(w.around("chat-1", nil, startChat(), tags{service: "chat", protocol: "http"}))
		ports := framework.FreePorts(2)
		front, back := entry{port: ports[0], host: "front.example"}, entry{port: ports[0], host: "back.example"}
		secure := entry{port: ports[1], host: "front.example", secure: true}
		w.Put("secrets", framework.Document{"type": "Secret", "mesh": shop, "name": "front", "data": certificatePEM("front.example", 1)})
		selectors := []any{map[string]any{"match": tags{service: "edge"}}}
		w.Put("meshgateways", framework.Document{"type": "MeshGateway", "mesh": shop, "name": "edge", "selectors": selectors, "conf": map[string]any{"listeners": []any{
			map[string]any{"port": ports[0], "protocol": "HTTP", "hostname": "front.example", "tags": tags{"door": "front"}},
			map[string]any{"port": ports[0], "protocol": "HTTP", "hostname": "back.example", "tags": tags{"door": "back"}},
			map[string]any{"port": ports[1], "protocol": "HTTPS", "hostname": "front.example", "tags": tags{"door": "front"},
				"tls": map[string]any{"mode": "TERMINATE", "certificates": []any{map[string]any{"secret": "front"}}}},
		}}})
		rule := func(path, to string) any {
			return map[string]any{"matches": []any{map[string]any{"path": map[string]any{"match": "PREFIX", "value": path}}}, "backends": []any{map[string]any{"weight": 1, "destination": tags{service: to}}}}
		}
		w.Put("meshgatewayroutes", framework.Document{"type": "MeshGatewayRoute", "mesh": shop, "name": "all", "selectors": selectors, "conf": map[string]any{
			"http": map[string]any{"rules": []any{rule("/", "backend"), rule("/room", "chat")}},
		}})
		w.Put("dataplanes", framework.Document{"type": "Dataplane", "mesh": shop, "name": "edge-1", "networking": map[string]any{
			"address": "127.0.0.1", "gateway": map[string]any{"type": "BUILTIN", "tags": tags{service: "edge"}},
		}})
		gateway := framework.NewSidecar(w.cp, shop, "edge-1", "", append([]string{"--proxy-type", "gateway"}, workers...)...).Start()
		w.ready(backend, chat)
		gateway.WaitReady()
		Eventually(func() int { return front.status("/") }, patience, 20*time.Millisecond).Should(Equal(200))
		Eventually(func() int { return secure.status("/") }, patience, 20*time.Millisecond).Should(Equal(200))
		Expect(gateway.Stat("server.concurrency")).To(Equal(4))
		room := func(e entry, token string) string {
			config, err := websocket.NewConfig(fmt.Sprintf("ws://127.0.0.1:%d/room", e.port), "http://front.example")
			Expect(err).NotTo(HaveOccurred())
			if config.Location.Host = e.host; token != "" {
				config.Header.Set("Authorization", "Bearer "+token)
			}
			tcp, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", e.port)) //nolint:noctx // a test
			Expect(err).NotTo(HaveOccurred())
			defer func() { _ = tcp.Close() }()
			Expect(tcp.SetDeadline(time.Now().Add(patience))).To(Succeed())
			conn, err := websocket.NewClient(config, tcp)
			if err != nil {
				return err.Error()
			}
			Expect(websocket.Message.Send(conn, "hello")).To(Succeed())
			var got string
			Expect(websocket.Message.Receive(conn, &got)).To(Succeed())
			return got
		}
		Expect(room(front, "")).To(Equal("/room hello"))
		Expect(tunnelled(ports[1], "front.example", "/room", "hello")).To(Equal("/room hello"), "over HTTP/2")

		// Answers are compressed for who takes it.
		zipped := front
		zipped.header = http.Header{"Accept-Encoding": {"gzip"}, "X-Long": {strings.Repeat("a", 2000)}}
		r := zipped.get("/")
		Expect(r.Header.Get("Content-Encoding")).To(Equal("gzip"))
		plain, err := gzip.NewReader(strings.NewReader(r.Body))
		Expect(err).NotTo(HaveOccurred())
		text, err := io.ReadAll(plain)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(ContainSubstring("backend-1"))
		zipped.header.Set("Accept-Encoding", "identity")
		Expect(zipped.get("/").Header).NotTo(HaveKey("Content-Encoding"))

		demand := func(name string, ref any) {
			w.Put("meshtokenauths", framework.Document{"type": "MeshTokenAuth", "mesh": shop, "name": name, "spec": map[string]any{
				"targetRef": ref, "from": []any{map[string]any{
					"targetRef": map[string]any{"kind": "Mesh"}, "default": map[string]any{"plugin": map[string]any{"id": f.Plugin}},
				}},
			}})
			w.Converged()
		}
		// Connections of before the policy are asked, too.
		client := front.client(nil)
		defer client.CloseIdleConnections()
		open, err := front.ask(client, http.MethodGet, "/")
		Expect(err).NotTo(HaveOccurred())
		Expect(open.Status).To(Equal(200))
		demand("doors", map[string]any{"kind": "MeshGateway", "name": "edge", "tags": tags{"door": "front"}})
		Eventually(func() int { return front.status("/") }, patience, 20*time.Millisecond).Should(Equal(401))
		Eventually(func() int { return secure.status("/") }, patience, 20*time.Millisecond).Should(Equal(401))
		open, err = front.ask(client, http.MethodGet, "/")
		Expect(err).NotTo(HaveOccurred())
		Expect(open.Status).To(Equal(401))
		Expect(open.Header.Get("WWW-Authenticate")).To(HavePrefix("Bearer"))
		Expect(back.status("/")).To(Equal(200), "the policy is for other listeners")
		Expect(room(front, "")).To(ContainSubstring("bad status"))
		Expect(tunnelled(ports[1], "front.example", "/room", "hello")).To(Equal("401"))
		for _, path := range []string{"/a/../b", "//x", "/oauth2/token", "/x/oauth2/authorize", "/.well-known/oauth-authorization-server"} {
			Expect(front.status(path)).To(Equal(401), path)
		}

		token := f.MustMint(cp.HTTPS)
		with := front
		with.header = http.Header{"Authorization": {"Bearer " + token}, "X-Consumer-Username": {"mallory"}, "X-Authenticated-Scope": {"everything"}}
		got := with.get("/").Received()
		Expect(got.Headers.Values("X-Consumer-Username")).To(Equal([]string{"alice"}))
		Expect(got.Headers.Values("X-Authenticated-Scope")).To(Equal([]string{"email"}))
		Expect(got.Headers.Get("Authorization")).To(Equal("Bearer "+token), "it is not hidden, so services can ask for it, too")
		Expect(got.Headers.Get("X-Forwarded-Client-Cert")).To(ContainSubstring("spiffe://shop/edge"))
		Expect(room(front, token)).To(Equal("/room hello"))
		Expect(tunnelled(ports[1], "front.example", "/room", "hello", hpack.HeaderField{Name: "authorization", Value: "Bearer " + token})).To(Equal("/room hello"))
		stranger := back
		stranger.header = http.Header{"X-Consumer-Username": {"mallory"}}
		Expect(stranger.get("/").Received().Headers).NotTo(HaveKey("X-Consumer-Username"))

		// A policy of the whole mesh is for inbounds: they set the identity anew, and ask who comes without.
		demand("mesh", map[string]any{"kind": "Mesh"})
		Eventually(func() int { return back.status("/") }, patience, 20*time.Millisecond).Should(Equal(401))
		got = with.get("/").Received()
		Expect(got.Headers.Values("X-Consumer-Username")).To(Equal([]string{"alice"}))
		rules := w.Mesh(http.MethodGet, "/meshes/shop/dataplanes/edge-1/rules", nil)
		Expect(rules.Body).To(And(ContainSubstring(fmt.Sprintf("127.0.0.1:%d:front.example", ports[0])), ContainSubstring(`"doors"`), Not(ContainSubstring("back.example"))))
		Expect(w.Mesh(http.MethodGet, "/meshes/shop/meshtokenauths/doors/dataplanes", nil).Body).To(ContainSubstring(`"edge-1"`))

		// What the gateway hides does not reach inbounds that ask for it.
		f.Must(200, http.MethodPatch, "/plugins/"+f.Plugin, map[string]any{"config": map[string]any{"hide_credentials": true}})
		Eventually(func() int { return with.status("/") }, patience, 20*time.Millisecond).Should(Equal(401))
		w.Delete(shop, "meshtokenauths", "mesh")
		Eventually(func() int { return with.status("/") }, patience, 20*time.Millisecond).Should(Equal(200))
		got = with.get("/").Received()
		Expect(got.Headers).NotTo(HaveKey("Authorization"))
		Expect(got.Headers.Values("X-Consumer-Username")).To(Equal([]string{"alice"}), "who it is passes to the service")

		for range 5 {
			token := f.MustMint(cp.HTTPS)
			var kept []*http.Client
			with.header.Set("Authorization", "Bearer "+token)
			for range 8 {
				c := with.client(nil)
				defer c.CloseIdleConnections()
				r, err := with.ask(c, http.MethodGet, "/")
				Expect(err).NotTo(HaveOccurred())
				Expect(r.Status).To(Equal(200))
				kept = append(kept, c)
			}
			f.Must(204, http.MethodDelete, "/oauth2_tokens/"+token, nil)
			for _, c := range kept {
				r, err := with.ask(c, http.MethodGet, "/")
				Expect(err).NotTo(HaveOccurred())
				Expect(r.Status).To(Equal(401), "DELETE answers when no worker of a gateway accepts the token any more")
			}
		}
		f.Must(204, http.MethodDelete, "/plugins/"+f.Plugin, nil)
		Eventually(func() int { return with.status("/") }, patience, 20*time.Millisecond).Should(Equal(503))
		Expect(back.status("/")).To(Equal(200))
		Expect(strings.Join(w.overview("edge-1").Errors, "\n")).To(ContainSubstring(f.Plugin))
	})
})
