package transparent_test

import (
	"context"
	"io"
	"net"
	"strconv"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
	"github.com/meshgate/meshgate/e2e/netns"
)

// live has a workload answer, and returns what ends it. callers gets the address of each caller.
func live(address string, callers chan<- string) (die func()) {
	lis, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := lis.Accept()
			if err != nil {
				return // closed
			}
			from, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			select {
			case callers <- from:
			default: // nobody asks for so many
			}
			_, _ = io.WriteString(c, "workload called by "+from)
			_ = c.Close()
		}
	})
	die = sync.OnceFunc(func() { _ = lis.Close(); done.Wait() })
	DeferCleanup(die)
	return die
}

var _ = Describe("a workload with a service probe behind a transparent proxy", func() {
	It("is found where the proxy calls it, also when its connections are redirected", func() {
		cable, err := netns.New()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(cable.Close)
		c := framework.NewControlPlane("run").Start()
		api := c.API()
		api.Put("meshes", framework.Document{"type": "Mesh", "name": "net"})
		redirected := map[string]any{"redirectPortInbound": 15006, "redirectPortOutbound": 15001, "ipFamilyMode": "DualStack"}
		web := func(address string) {
			api.Put("dataplanes", framework.Document{"type": "Dataplane", "mesh": "net", "name": "web-1", "networking": map[string]any{
				"address": address, "transparentProxying": redirected,
				"inbound": []any{map[string]any{"port": 8080, "tags": tags("web"), "serviceProbe": map[string]any{"interval": "50ms", "tcp": map[string]any{}}}},
			}})
		}
		ready := func() bool {
			n := api.Get("/meshes/net/dataplanes/web-1")["networking"].(map[string]any)
			yes, _ := n["inbound"].([]any)[0].(map[string]any)["health"].(map[string]any)["ready"].(bool) // absent if it is not
			return yes
		}
		web(netns.Here4)
		s := framework.NewSidecar(c, "net", "web-1", "").StartAs(proxy)
		s.WaitReady()
		command("transparent-proxy", "install", "--proxy-user", strconv.Itoa(proxy), "--ipv6")
		DeferCleanup(func() { command("transparent-proxy", "uninstall") })
		Expect(ready()).NotTo(BeTrue())

		callers := make(chan string, 1)
		die := live(netns.Here4+":8080", callers)
		Eventually(ready, patience, "20ms").Should(BeTrue())
		Expect(<-callers).To(Equal("127.0.0.6"), "as the proxy calls it")
		die()
		Eventually(ready, patience, "20ms").ShouldNot(BeTrue())

		By("at an address of IPv6, where it is new")
		die = live("["+netns.Here6+"]:8080", callers)
		web(netns.Here6)
		Eventually(ready, patience, "20ms").Should(BeTrue())
		die()
		Eventually(ready, patience, "20ms").ShouldNot(BeTrue())
	})
})
