package transparent_test

import (
	"context"
	"net"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
	"github.com/meshgate/meshgate/e2e/netns"
)

var _ = Describe("transparent proxying where everybody proves who they are", func() {
	It("captures what is opened and what arrives, by names too, and takes nobody without a certificate", func() {
		cable, err := netns.New()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(cable.Close)
		serve("backend", "127.0.0.1:8081", cable.There)
		serve("direct", "127.0.0.1:8082", cable.There)
		serve("stranger", netns.There4+":83", cable.There)
		serve("workload", netns.Here4+":8080", here)
		serve("ssh", netns.Here4+":22", here)
		answerHTTP(netns.Here4+":8090", here)

		c := framework.NewControlPlane("run").Start()
		forward(cable, c.Data)
		api := c.API()
		strict(api)
		caller := map[string]any{"address": netns.There4, "inbound": []any{served("backend", 81, 8081), served("direct", 82, 8082)}, "outbound": []any{
			map[string]any{"port": 10080, "tags": map[string]any{"mesh.io/service": "web"}},
		}}
		there := neighbour(cable, c, "backend-1", caller, nil)
		dns := framework.FreePorts(1)[0]
		api.Put("dataplanes", framework.Document{
			"type": "Dataplane", "mesh": "net", "name": "web-1",
			"probes": map[string]any{"port": 9000, "endpoints": []any{map[string]any{"inboundPort": 8090, "inboundPath": "/healthz", "path": "/8090/live"}}},
			"networking": map[string]any{
				"address": netns.Here4, "inbound": []any{
					map[string]any{"port": 8080, "tags": tags("web")},
					map[string]any{"port": 8090, "tags": map[string]any{"mesh.io/service": "pages", "mesh.io/protocol": "http"}},
				},
				"transparentProxying": map[string]any{"redirectPortInbound": 15006, "redirectPortOutbound": 15001, "directAccessServices": []string{"direct"}},
			},
		})
		s := framework.NewSidecar(c, "net", "web-1", "", "--dns-port", strconv.Itoa(dns)).StartAs(proxy)
		s.WaitReady()
		command("transparent-proxy", "install", "--proxy-user", strconv.Itoa(proxy))
		DeferCleanup(func() { command("transparent-proxy", "uninstall") })
		from := func(address string) (got string) {
			cable.There(func() { got = call(address) })
			return got
		}

		By("a service is called by its name, and proves who it is")
		var found []string
		Eventually(func() (err error) {
			found, err = framework.AtDNS("udp", dns).LookupHost(context.Background(), "backend.mesh.")
			return err
		}, patience, "50ms").Should(Succeed())
		var virtual string
		for _, a := range found {
			if net.ParseIP(a).To4() != nil {
				virtual = a + ":80"
			}
		}
		Eventually(func() string { return asWorkload(virtual) }, patience, "50ms").Should(HavePrefix("backend called by"))
		Expect(s.Stat("cluster.backend.ssl.handshake")).To(BeNumerically(">=", 1))
		Expect(s.Stat("cluster.backend.ssl.connection_error")).To(BeZero())

		By("an instance is called at its own address")
		Eventually(func() string { return asWorkload(netns.There4 + ":82") }, patience, "50ms").Should(HavePrefix("direct called by"))
		Expect(s.Stat("cluster.direct_access_direct.ssl.handshake")).To(BeNumerically(">=", 1))
		Expect(asWorkload(netns.There4+":81")).To(Equal("nothing"), "the proxy was not asked to prove itself to other instances")

		By("what is no service goes where it was meant to go")
		Expect(asWorkload(netns.There4 + ":83")).To(Equal("stranger called by " + netns.Here4))

		By("what comes to the workload comes with a certificate")
		Eventually(func() string { return from("127.0.0.1:10080") }, patience, "50ms").Should(Equal("workload called by 127.0.0.6"))
		Expect(there.Stat("cluster.web.ssl.handshake")).To(BeNumerically(">=", 1))
		Expect(from(netns.Here4+":8080")).To(Equal("nothing"), "it has no certificate")
		Expect(from(netns.Here4 + ":22")).To(Equal("ssh called by " + netns.There4))

		By("whoever checks the workload needs none")
		var live, page string
		cable.There(func() {
			live, page = ask("GET", "http://"+netns.Here4+":9000/8090/live"), ask("GET", "http://"+netns.Here4+":8090/healthz")
		})
		Expect(live).To(Equal("GET /healthz"))
		Expect(page).To(Equal("nothing"), "it has no certificate")

		By("permissions judge who the certificate names")
		api.Delete("net", "traffic-permissions", "allow-all-net")
		Eventually(func() string { return from("127.0.0.1:10080") }, patience, "50ms").Should(Equal("nothing"))
		match := func(service string) []any {
			return []any{map[string]any{"match": map[string]any{"mesh.io/service": service}}}
		}
		api.Put("traffic-permissions", framework.Document{"type": "TrafficPermission", "mesh": "net", "name": "in", "sources": match("backend"), "destinations": match("web")})
		Eventually(func() string { return from("127.0.0.1:10080") }, patience, "50ms").Should(HavePrefix("workload"))
		Expect(asWorkload(virtual)).To(Equal("nothing"), "only one way is permitted")
	})
})
