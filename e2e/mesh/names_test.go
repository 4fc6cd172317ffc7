package mesh_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// nowhere stands for the addresses of a name that does not exist.
const nowhere = "no such name"

// virtualOutbound names inbounds that a selector matches.
func virtualOutbound(name, host, port string, of tags, parameters ...string) framework.Document {
	list := []any{map[string]any{"name": "service", "tagKey": service}}
	for _, p := range parameters {
		list = append(list, map[string]any{"name": p})
	}
	return framework.Document{
		"type": "VirtualOutbound", "mesh": shop, "name": name, "selectors": []any{map[string]any{"match": of}},
		"conf": map[string]any{"host": host, "port": port, "parameters": list},
	}
}

// Names are asked of the agent, and connections to their addresses are redirected by the kernel,
// as with the rules of a transparent proxy.
var _ = Describe("names of the mesh", Ordered, core, func() {
	var (
		w             *world
		web           *member
		dns, redirect int
		upstream      net.PacketConn
	)

	// lookup asks the agent for the address of a name.
	lookup := func(network, host string) string {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		all, err := framework.AtDNS(network, dns).LookupHost(ctx, host+".")
		if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
			return nowhere
		}
		if err != nil {
			return err.Error()
		}
		return strings.Join(all, " ")
	}

	// known waits until a name has an address, and returns that.
	known := func(host string) (a netip.Addr) {
		GinkgoHelper()
		Eventually(func() (err error) { a, err = netip.ParseAddr(lookup("udp", host)); return err }, patience, 10*time.Millisecond).Should(Succeed(), host)
		Expect(netip.MustParsePrefix("240.0.0.0/4").Contains(a)).To(BeTrue(), a.String())
		return a
	}

	// served are the names of the workloads that answer at an address, by many requests.
	served := func(at netip.Addr, port uint16) (out []string) {
		GinkgoHelper()
		end, err := framework.Redirect(netip.AddrPortFrom(at, port), uint16(redirect))
		if errors.Is(err, os.ErrPermission) {
			Skip("connections cannot be redirected here, which needs root: " + err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(end()).To(Succeed()) }()
		url := "http://" + net.JoinHostPort(at.String(), strconv.Itoa(int(port)))
		Eventually(func() error { _, err := get(url); return err }, patience, 10*time.Millisecond).Should(Succeed(), url)
		seen := map[string]bool{}
		for range 20 {
			r, err := get(url)
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Status).To(Equal(http.StatusOK), r.Body)
			var got framework.Received
			Expect(json.Unmarshal([]byte(r.Body), &got)).To(Succeed(), r.Body)
			seen[got.Name] = true
		}
		for name := range seen {
			out = append(out, name)
		}
		return out
	}

	BeforeAll(func() {
		var err error
		upstream, err = net.ListenPacket("udp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(answerNothing(upstream))
		w = newWorld("STRICT")
		one := w.start("backend-1", tags{service: "backend", "version": "v1", "port": "8080"})
		two := w.start("backend-2", tags{service: "backend", "version": "v2", "port": "8080"})
		web = w.describe("web-1", tags{service: "web"})
		ports := framework.FreePorts(2)
		dns, redirect = ports[0], ports[1]
		networking := web.doc["networking"].(map[string]any)
		delete(networking, "outbound")
		networking["transparentProxying"] = map[string]any{"redirectPortOutbound": redirect}
		w.Put("dataplanes", web.doc)
		web.Sidecar = framework.NewSidecar(w.cp, shop, "web-1", "", "--dns-port", strconv.Itoa(dns), "--dns-upstream", upstream.LocalAddr().String()).Start()
		w.ready(one, two, web)
	})

	It("a service is reached by its name, over the address that both UDP and TCP say", func() {
		a := known("backend.mesh")
		Expect(lookup("tcp", "backend.mesh")).To(Equal(a.String()))
		Expect(served(a, 80)).To(ConsistOf("backend-1", "backend-2"))
		Expect(lookup("udp", "other.mesh")).To(Equal(nowhere))
	})

	It("a VirtualOutbound names each version, and a name leads to that version alone", func() {
		before := known("backend.mesh")
		w.Put("virtual-outbounds", virtualOutbound("versions", "{{.version}}.{{.service}}.shop", "{{.port}}", tags{"version": "*"}, "version", "port"))
		one, two := known("v1.backend.shop"), known("v2.backend.shop")
		Expect(served(one, 8080)).To(ConsistOf("backend-1"))
		Expect(served(two, 8080)).To(ConsistOf("backend-2"))
		Expect(known("backend.mesh")).To(Equal(before))

		By("another VirtualOutbound that gives the same names")
		w.Put("virtual-outbounds", virtualOutbound("renamed", "{{.version}}.{{.service}}.shop", "{{.port}}", tags{"version": "*"}, "version", "port"))
		w.Delete(shop, "virtual-outbounds", "versions")
		w.Converged()
		Expect(known("v2.backend.shop")).To(Equal(two))
		Expect(served(two, 8080)).To(ConsistOf("backend-2"))

		By("names that nothing gives any more")
		w.Delete(shop, "virtual-outbounds", "renamed")
		w.Converged()
		waits := func() string { return lookup("udp", "v2.backend.shop") }
		Eventually(waits, patience, 10*time.Millisecond).Should(Equal(nowhere))

		By("the same names again")
		w.Put("virtual-outbounds", virtualOutbound("again", "{{.version}}.{{.service}}.shop", "{{.port}}", tags{"version": "*"}, "version", "port"))
		Eventually(waits, patience, 10*time.Millisecond).Should(Equal(two.String()))
	})

	It("a connection that the proxy would pass on to itself ends, again and again", func() {
		proxy := net.JoinHostPort("127.0.0.1", strconv.Itoa(redirect))
		nobodys := netip.MustParseAddrPort("240.255.255.254:80")
		end, err := framework.Redirect(nobodys, uint16(redirect))
		if errors.Is(err, os.ErrPermission) {
			Skip("connections cannot be redirected here, which needs root: " + err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(end()).To(Succeed()) }()
		before := web.Stat("cluster.outbound_passthrough_ipv4.upstream_cx_total")
		for _, to := range []string{proxy, nobodys.String()} {
			conn, err := net.DialTimeout("tcp", to, patience)
			Expect(err).NotTo(HaveOccurred())
			Expect(over(conn)).To(BeEmpty(), to)
		}
		Expect(web.Stat("cluster.outbound_passthrough_ipv4.upstream_cx_total")).To(Equal(before))
	})

	It("of two VirtualOutbounds that give one name, the first wins, and the other is shown", func() {
		w.Put("virtual-outbounds", virtualOutbound("x", "one.shop", "80", tags{"version": "v2"}, "version"))
		w.Put("virtual-outbounds", virtualOutbound("y", "one.shop", "80", tags{"version": "v1"}, "version"))
		Expect(served(known("one.shop"), 80)).To(ConsistOf("backend-2"))
		Eventually(func() string { return strings.Join(w.overview("web-1").Errors, "\n") }, patience).Should(
			ContainSubstring(`VirtualOutbound "y" also gives the name one.shop:80 to mesh.io/service=backend,version=v1; there the name leads to mesh.io/service=backend,version=v2`))
		w.Delete(shop, "virtual-outbounds", "x")
		w.Converged()
		Eventually(func() []string { return served(known("one.shop"), 80) }, patience).Should(ConsistOf("backend-1"))
		Eventually(func() []string { return w.overview("web-1").Errors }, patience).Should(BeEmpty())
	})

	// What a spec starts ends with it, so this is the last one.
	It("a control plane that was started anew has the same addresses", func() {
		own, two := known("backend.mesh"), known("v2.backend.shop")
		w.cp.Kill()
		Expect(known("v2.backend.shop")).To(Equal(two), "while it is away")
		w.cp.Start()
		Eventually(func() bool { return w.overview("web-1").online() }, patience).Should(BeTrue())
		w.Put("virtual-outbounds", virtualOutbound("more", "more.{{.service}}.shop", "80", tags{service: "backend"}))
		Expect(served(known("more.backend.shop"), 80)).To(ConsistOf("backend-1", "backend-2"))
		Expect(known("v2.backend.shop")).To(Equal(two))
		Expect(known("backend.mesh")).To(Equal(own))
	})
})

// answerNothing answers all questions that are passed on with a name that does not exist, until it
// is ended.
func answerNothing(at net.PacketConn) (end func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		buffer := make([]byte, 1<<16)
		for {
			n, from, err := at.ReadFrom(buffer)
			if err != nil {
				return
			}
			answer := append([]byte(nil), buffer[:n]...)
			answer[2] |= 0x80 // an answer
			answer[3] = 3     // NXDOMAIN
			_, _ = at.WriteTo(answer, from)
		}
	}()
	return func() { _ = at.Close(); <-done }
}
