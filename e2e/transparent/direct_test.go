package transparent_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
	"github.com/meshgate/meshgate/e2e/netns"
)

const patience = "60s"

// strict makes a mesh in which everybody proves who they are.
func strict(api *framework.API) {
	api.Put("meshes", framework.Document{"type": "Mesh", "name": "net", "mtls": map[string]any{
		"enabledBackend": "ca-1", "backends": []any{map[string]any{"name": "ca-1", "type": "builtin"}},
	}})
}

// forward leads connections to a loopback port of the other machine to the same port of this one,
// where the control plane is.
func forward(cable *netns.Cable, port int) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	var lis net.Listener
	var err error
	cable.There(func() { lis, err = new(net.ListenConfig).Listen(context.Background(), "tcp", address) })
	Expect(err).NotTo(HaveOccurred())
	var all sync.WaitGroup
	ctx, end := context.WithCancel(context.Background())
	all.Go(func() {
		for {
			from, err := lis.Accept()
			if err != nil {
				return // closed
			}
			to, err := net.Dial("tcp", address)
			if err != nil {
				_ = from.Close()
				continue
			}
			stop := context.AfterFunc(ctx, func() { _, _ = from.Close(), to.Close() })
			all.Go(func() { _, _ = io.Copy(to, from); _ = to.Close() })
			all.Go(func() { defer stop(); _, _ = io.Copy(from, to); _ = from.Close() })
		}
	})
	DeferCleanup(func() { end(); _ = lis.Close(); all.Wait() })
}

// neighbour starts a sidecar on the other machine for a dataplane there.
func neighbour(cable *netns.Cable, c *framework.ControlPlane, name string, networking map[string]any, more framework.Document) *framework.Sidecar {
	doc := framework.Document{"type": "Dataplane", "mesh": "net", "name": name, "networking": networking}
	for k, v := range more {
		doc[k] = v
	}
	c.API().Put("dataplanes", doc)
	s := framework.NewSidecar(c, "net", name, "")
	cable.There(func() { s.Start() })
	s.WaitReady()
	return s
}

func served(service string, port, workload int) map[string]any {
	return map[string]any{"port": port, "servicePort": workload, "tags": tags(service)}
}

var _ = Describe("direct access", func() {
	It("reaches the very instance that a workload calls, which has to be of the service, and never the proxy itself", func() {
		cable, err := netns.New()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(cable.Close)
		Expect(cable.Add("192.0.2.9/24")).To(Succeed())
		serve("one", "127.0.0.1:8081", cable.There)
		serve("two", "127.0.0.1:8082", cable.There)
		serve("other", "127.0.0.1:8083", cable.There)

		c := framework.NewControlPlane("run").Start()
		forward(cable, c.Data)
		api := c.API()
		strict(api)
		neighbour(cable, c, "backend-1", map[string]any{"address": netns.There4, "inbound": []any{served("backend", 81, 8081), served("backend", 82, 8082)}}, nil)
		neighbour(cable, c, "other-1", map[string]any{"address": netns.There4, "inbound": []any{served("other", 83, 8083)}}, nil)
		// Somebody says that the other service is an instance of the backend, and so is a port of
		// an address of this machine that no dataplane has.
		for name, at := range map[string]map[string]any{"false-1": {"address": netns.There4, "inbound": []any{served("backend", 83, 83)}}, "false-2": {"address": "192.0.2.9", "inbound": []any{served("backend", 8080, 1)}}} {
			api.Put("dataplanes", framework.Document{"type": "Dataplane", "mesh": "net", "name": name, "networking": at})
		}
		api.Put("dataplanes", framework.Document{"type": "Dataplane", "mesh": "net", "name": "web-1", "networking": map[string]any{
			"address": netns.Here4, "inbound": []any{map[string]any{"port": 8080, "tags": tags("web")}},
			"transparentProxying": map[string]any{"redirectPortInbound": 15006, "redirectPortOutbound": 15001, "directAccessServices": []string{"backend"}},
		}})
		s := framework.NewSidecar(c, "net", "web-1", "").StartAs(proxy)
		s.WaitReady()
		command("transparent-proxy", "install", "--proxy-user", strconv.Itoa(proxy))
		DeferCleanup(func() { command("transparent-proxy", "uninstall") })

		Eventually(func() string { return asWorkload(netns.There4 + ":81") }, patience, "50ms").Should(HavePrefix("one"))
		Expect(asWorkload(netns.There4 + ":82")).To(HavePrefix("two"))
		Expect(s.Stat("cluster.direct_access_backend.ssl.handshake")).To(BeNumerically(">=", 2))

		By("one of another service does not get what is meant for the backend")
		before := s.Stat("cluster.direct_access_backend.ssl.fail_verify_san")
		Expect(asWorkload(netns.There4 + ":83")).To(Equal("nothing"))
		Expect(s.Stat("cluster.direct_access_backend.ssl.fail_verify_san")).To(BeNumerically(">", before))

		By("a connection that the proxy would pass on to itself ends")
		total := s.Stat("cluster.direct_access_backend.upstream_cx_total")
		var got string
		cable.There(func() { got = call("192.0.2.9:8080") })
		Expect(got).To(Equal("nothing"))
		Expect(s.Stat("cluster.direct_access_backend.upstream_cx_total")).To(BeNumerically("<=", total+1))
		Expect(asWorkload(netns.There4 + ":82")).To(HavePrefix("two"))

		By("the permissions of the instance apply")
		api.Delete("net", "traffic-permissions", "allow-all-net")
		Eventually(func() string { return asWorkload(netns.There4 + ":82") }, patience, "50ms").Should(Equal("nothing"))
		match := func(service string) []any {
			return []any{map[string]any{"match": map[string]any{"mesh.io/service": service}}}
		}
		api.Put("traffic-permissions", framework.Document{"type": "TrafficPermission", "mesh": "net", "name": "web", "sources": match("web"), "destinations": match("backend")})
		Eventually(func() string { return asWorkload(netns.There4 + ":82") }, patience, "50ms").Should(HavePrefix("two"))
	})
})

// answerHTTP answers requests with what was asked for.
func answerHTTP(address string, place func(func())) {
	var lis net.Listener
	var err error
	place(func() { lis, err = new(net.ListenConfig).Listen(context.Background(), "tcp", address) })
	Expect(err).NotTo(HaveOccurred())
	server := &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Consumer-ID"))
	})}
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(lis) })
	DeferCleanup(func() { _ = server.Close(); done.Wait() })
}

// ask sends a request of a stranger and returns the answer, with the status unless it is 200, or
// "nothing".
func ask(method, url string) string {
	request, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(""))
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("X-Consumer-ID", "forged")
	// The connection has to be opened in this goroutine.
	conn, err := net.DialTimeout("tcp", request.URL.Host, 5*time.Second)
	if err != nil {
		return "nothing"
	}
	defer func() { _ = conn.Close() }()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil }}
	answer, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Do(request)
	if err != nil {
		return "nothing"
	}
	defer func() { _ = answer.Body.Close() }()
	body, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		return strconv.Itoa(answer.StatusCode)
	}
	return strings.TrimSpace(string(body))
}

var _ = Describe("virtual probes", func() {
	It("are answered by workloads to whoever asks for one of their paths, and nothing else is", func() {
		cable, err := netns.New()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(cable.Close)
		answerHTTP(netns.Here4+":8080", here)
		answerHTTP("127.0.0.1:8081", cable.There)

		c := framework.NewControlPlane("run").Start()
		forward(cable, c.Data)
		api := c.API()
		strict(api)
		probes := func(port int) framework.Document {
			return framework.Document{"probes": map[string]any{"port": 9000, "endpoints": []any{map[string]any{"inboundPort": port, "inboundPath": "/healthz", "path": "/" + strconv.Itoa(port) + "/live"}}}}
		}
		http1 := map[string]any{"mesh.io/service": "web", "mesh.io/protocol": "http"}
		neighbour(cable, c, "plain-1", map[string]any{"address": netns.There4, "inbound": []any{map[string]any{"port": 80, "servicePort": 8081, "tags": http1}}}, probes(8081))
		doc := probes(8080)
		doc["type"], doc["mesh"], doc["name"] = "Dataplane", "net", "web-1"
		doc["networking"] = map[string]any{
			"address": netns.Here4, "inbound": []any{map[string]any{"port": 8080, "tags": http1}},
			"transparentProxying": map[string]any{"redirectPortInbound": 15006, "redirectPortOutbound": 15001},
		}
		api.Put("dataplanes", doc)
		framework.NewSidecar(c, "net", "web-1", "").StartAs(proxy).WaitReady()
		command("transparent-proxy", "install", "--proxy-user", strconv.Itoa(proxy))
		DeferCleanup(func() { command("transparent-proxy", "uninstall") })
		there := func(method, url string) (got string) {
			cable.There(func() { got = ask(method, url) })
			return got
		}

		for name, ask := range map[string]func(method, path string) string{
			"a transparent proxy": func(method, path string) string {
				return there(method, "http://"+netns.Here4+":9000"+strings.Replace(path, "PORT", "8080", 1))
			},
			"another proxy": func(method, path string) string {
				return ask(method, "http://"+netns.There4+":9000"+strings.Replace(path, "PORT", "8081", 1))
			},
		} {
			By(name)
			Eventually(func() string { return ask("GET", "/PORT/live") }, patience, "50ms").Should(Equal("GET /healthz"))
			Expect(ask("GET", "/PORT/live?x=y")).To(Equal("GET /healthz"))
			for _, path := range []string{"/", "/healthz", "/PORT/live/", "/PORT/live/x", "/PORT", "/x/../PORT/live"} {
				Expect(ask("GET", path)).To(Equal("404"), path)
			}
			for _, method := range []string{"POST", "PUT", "HEAD"} {
				Expect(ask(method, "/PORT/live")).To(Equal("404"), method)
			}
		}
		Expect(there("GET", "http://"+netns.Here4+":8080/healthz")).To(Equal("nothing"), "it has no certificate")
		Expect(ask("GET", "http://"+netns.There4+":80/healthz")).To(Equal("nothing"), "it has no certificate")
	})
})
