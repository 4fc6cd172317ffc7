package transparent_test

import (
	"context"
	"io"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
	"github.com/meshgate/meshgate/e2e/netns"
)

// Users of the machine: that of the workload, and that of the proxy.
const workload, proxy = 1000, 5678

// serve answers each connection with a name and with who has called. place has it listen.
func serve(name, address string, place func(func())) {
	var lis net.Listener
	var err error
	place(func() { lis, err = new(net.ListenConfig).Listen(context.Background(), "tcp", address) })
	Expect(err).NotTo(HaveOccurred())
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := lis.Accept()
			if err != nil {
				return // closed
			}
			from, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			_, _ = io.WriteString(c, name+" called by "+from)
			_ = c.Close()
		}
	})
	DeferCleanup(func() { _ = lis.Close(); done.Wait() })
}

// call connects and returns the answer, "nothing" if there is none.
func call(address string) string {
	c, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return "nothing"
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	text, err := io.ReadAll(c)
	if err != nil || len(text) == 0 {
		return "nothing"
	}
	return string(text)
}

// asWorkload calls as the workload does.
func asWorkload(address string) (got string) {
	netns.As(workload, func() { got = call(address) })
	return got
}

func here(f func()) { f() }

// command runs meshgate to its end and returns what it prints.
func command(args ...string) string {
	out, err := exec.Command(framework.Binary(), args...).CombinedOutput()
	ExpectWithOffset(1, err).NotTo(HaveOccurred(), string(out))
	return string(out)
}

var _ = Describe("transparent proxying", func() {
	It("leads what a workload opens, and what comes to it, through its proxy", func() {
		cable, err := netns.New()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(cable.Close)
		serve("backend", netns.There4+":80", cable.There)
		serve("stranger", netns.There4+":81", cable.There)
		serve("workload", netns.Here4+":8080", here)
		serve("ssh", netns.Here4+":22", here)

		c := framework.NewControlPlane("run").Start()
		api := c.API()
		api.Put("meshes", framework.Document{"type": "Mesh", "name": "net"})
		api.Put("dataplanes", framework.Document{"type": "Dataplane", "mesh": "net", "name": "backend-1", "networking": map[string]any{
			"address": netns.There4, "inbound": []any{map[string]any{"port": 80, "tags": tags("backend")}},
		}})
		api.Put("dataplanes", framework.Document{"type": "Dataplane", "mesh": "net", "name": "web-1", "networking": map[string]any{
			"address": netns.Here4, "inbound": []any{map[string]any{"port": 8080, "tags": tags("web")}},
			"transparentProxying": map[string]any{"redirectPortInbound": 15006, "redirectPortOutbound": 15001},
		}})
		s := framework.NewSidecar(c, "net", "web-1", "").StartAs(proxy)
		s.WaitReady()

		Expect(asWorkload(netns.There4 + ":81")).To(Equal("stranger called by " + netns.Here4))
		Expect(s.Stat(passed)).To(BeZero(), "nothing is redirected yet")

		install := []string{"transparent-proxy", "install", "--proxy-user", strconv.Itoa(proxy)}
		Expect(command(append(install, "--dry-run")...)).To(ContainSubstring("meta skuid 5678 return"))
		Expect(asWorkload(netns.There4+":81")).To(HavePrefix("stranger"), "nothing was installed")
		for range 2 {
			Expect(command(install...)).To(HavePrefix("installed: table inet meshgate with"))
		}

		By("a service is called at its own address")
		listeners, err := s.Admin("/listeners")
		Expect(err).NotTo(HaveOccurred())
		virtual := regexp.MustCompile(`outbound:(2[45]\d\.\d+\.\d+\.\d+:80)::`).FindAllStringSubmatch(listeners, -1)
		var answers []string
		for _, v := range virtual {
			answers = append(answers, asWorkload(v[1]))
		}
		Expect(answers).To(ContainElement("backend called by "+netns.Here4), listeners)
		Expect(s.Stat("cluster.backend.upstream_cx_total")).To(Equal(1))

		By("what is no service goes where it was meant to go, as long as the mesh lets it")
		Expect(asWorkload(netns.There4 + ":81")).To(Equal("stranger called by " + netns.Here4))
		Expect(s.Stat(passed)).To(Equal(1))
		api.Put("meshes", framework.Document{"type": "Mesh", "name": "net", "networking": map[string]any{"outbound": map[string]any{"passthrough": false}}})
		Eventually(func() string { return asWorkload(netns.There4 + ":81") }, patience, "50ms").Should(Equal("nothing"))
		Expect(asWorkload(netns.Here4+":8080")).To(HavePrefix("workload"), "what stays on the machine is left alone")

		By("what comes to the workload comes through the proxy")
		from := func(address string) (got string) {
			cable.There(func() { got = call(address) })
			return got
		}
		Expect(from(netns.Here4 + ":8080")).To(Equal("workload called by 127.0.0.6"))
		Expect(from(netns.Here4 + ":22")).To(Equal("ssh called by " + netns.There4))

		By("and directly again when the rules are gone")
		Expect(command("transparent-proxy", "uninstall")).To(HavePrefix("removed"))
		Expect(command("transparent-proxy", "uninstall")).To(HavePrefix("nothing was installed"))
		Expect(asWorkload(netns.There4 + ":81")).To(Equal("stranger called by " + netns.Here4))
		Expect(from(netns.Here4 + ":8080")).To(Equal("workload called by " + netns.There4))
	})

	It("takes connections of IPv6, and lets nobody past a demand of tokens by another address", func() {
		cable, err := netns.New()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(cable.Close)
		serve("stranger", "["+netns.There6+"]:81", cable.There)
		serve("workload", "[::]:8080", here)
		serve("workload's neighbour", "[::]:8081", here)

		c := framework.NewControlPlane("run").Start()
		api := c.API()
		api.Put("meshes", framework.Document{"type": "Mesh", "name": "net"})
		redirected := map[string]any{"redirectPortInbound": 15006, "redirectPortOutbound": 15001, "ipFamilyMode": "DualStack"}
		web := func(address, protocol string) {
			api.Put("dataplanes", framework.Document{"type": "Dataplane", "mesh": "net", "name": "web-1", "networking": map[string]any{
				"address": address, "transparentProxying": redirected,
				"inbound": []any{map[string]any{"port": 8080, "tags": map[string]any{"mesh.io/service": "web", "mesh.io/protocol": protocol}}},
			}})
		}
		web(netns.Here4, "http")
		s := framework.NewSidecar(c, "net", "web-1", "").StartAs(proxy)
		s.WaitReady()
		command("transparent-proxy", "install", "--proxy-user", strconv.Itoa(proxy), "--ipv6")
		DeferCleanup(func() { command("transparent-proxy", "uninstall") })
		from := func(address string) (got string) {
			cable.There(func() { got = call(address) })
			return got
		}

		By("what a workload opens")
		Expect(asWorkload("[" + netns.There6 + "]:81")).To(Equal("stranger called by " + netns.Here6))
		Expect(s.Stat("cluster.outbound_passthrough_ipv6.upstream_cx_total")).To(Equal(1))

		By("what comes to an address without an inbound is passed on, as long as nothing is demanded there")
		Expect(from("[" + netns.Here6 + "]:8080")).To(Equal("workload called by ::1"))
		Expect(from("[" + netns.Here6 + "]:8081")).To(Equal("workload's neighbour called by ::1"))
		api.Put("meshtokenauths", framework.Document{"type": "MeshTokenAuth", "mesh": "net", "name": "tokens", "spec": map[string]any{
			"targetRef": map[string]any{"kind": "Mesh"},
			"from":      []any{map[string]any{"targetRef": map[string]any{"kind": "Mesh"}, "default": map[string]any{"config": map[string]any{"global_credentials": true}}}},
		}})
		Eventually(func() string { return from("[" + netns.Here6 + "]:8080") }, patience, "50ms").Should(Equal("nothing"))
		Expect(from("["+netns.Here6+"]:8081")).To(Equal("workload's neighbour called by ::1"), "it is no inbound")

		By("an inbound at an address of IPv6")
		api.Delete("net", "meshtokenauths", "tokens")
		web(netns.Here6, "tcp")
		Eventually(func() int {
			from("[" + netns.Here6 + "]:8080")
			return s.Stat("cluster.localhost_8080.upstream_cx_total")
		}, patience, "50ms").ShouldNot(BeZero())
		Expect(from("[" + netns.Here6 + "]:8080")).To(Equal("workload called by ::1"))
	})
})

// passed counts connections to what is no service.
const passed = "cluster.outbound_passthrough_ipv4.upstream_cx_total"

func tags(service string) map[string]any {
	return map[string]any{"mesh.io/service": service, "mesh.io/protocol": "tcp"}
}
