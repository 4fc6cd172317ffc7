package mesh_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// leaving is a mesh whose services outside are called through the egress of the zone.
func leaving(mesh string) framework.Document {
	d := secured(mesh)
	d["routing"] = map[string]any{"zoneEgress": true}
	return d
}

// servedOutside is a service outside a mesh.
func servedOutside(mesh, name, proto string, at net.Addr, protection map[string]any) framework.Document {
	n := map[string]any{"address": at.String()}
	if protection != nil {
		n["tls"] = protection
	}
	return framework.Document{"type": "ExternalService", "mesh": mesh, "name": name, "tags": tags{service: name, protocol: proto}, "networking": n}
}

// egressFile describes an egress at a port.
func egressFile(port int) string {
	file := filepath.Join(GinkgoT().TempDir(), "egress.yaml")
	writeFile(file, fmt.Appendf(nil, "type: ZoneEgress\nname: out\nnetworking: {address: 127.0.0.1, port: %d}\n", port))
	return file
}

// line says a line to an egress for a service of TCP by an identity, and returns the answer; empty
// if there is none.
func line(port int, sni string, identity *tls.Certificate) string {
	GinkgoHelper()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{
		ServerName: sni, InsecureSkipVerify: true, NextProtos: []string{"mesh"}, Certificates: []tls.Certificate{*identity},
	})
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	return echo{conn}.say(bufio.NewReader(conn), "hello")
}

// vouched is the certificate by which an egress vouches for itself under a server name, to an identity
// that it takes.
func vouched(port int, sni string, identity *tls.Certificate) *x509.Certificate {
	GinkgoHelper()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", fmt.Sprintf("127.0.0.1:%d", port), &tls.Config{
		ServerName: sni, InsecureSkipVerify: true, NextProtos: []string{"mesh"}, Certificates: []tls.Certificate{*identity},
	})
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0]
}

var _ = Describe("policies and meshes at the egress of the zone", Ordered, core, func() {
	var (
		w                    *world
		web, jobs, till      *member
		egress               *member
		clear, other         *httptest.Server
		bank                 *demanding
		files                net.Listener
		authority, elsewhere *root
		out                  int
	)
	const clearSNI, filesSNI = "clear{mesh=shop}", "files{mesh=shop}"
	does := func(action string) any { return map[string]any{"action": action} }
	// identity is a certificate as proxies of a service have it.
	identity := func(name string) *tls.Certificate {
		id := "spiffe://" + shop + "/" + name
		return authority.names(id, "mesh://"+service+"/"+name, id)
	}
	presenting := func(pair [2]string) map[string]any {
		return map[string]any{
			"enabled": true, "serverName": "example.com", "caCert": map[string]any{"inlineString": bank.ca},
			"clientCert": map[string]any{"inlineString": pair[0]}, "clientKey": map[string]any{"inlineString": pair[1]},
		}
	}
	// answer is the status and the body of an answer, or why there is none.
	answer := func(url string) string {
		r, err := get(url)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%d %s", r.Status, r.Body)
	}

	BeforeAll(func() {
		clear, other, bank = outsideMesh(), outsideMesh(), startDemanding()
		clear.Start()
		other.Start()
		ln, err := net.Listen("tcp", net.JoinHostPort(outward(), "0"))
		Expect(err).NotTo(HaveOccurred())
		files = echoAt(ln)

		w = newWorld("STRICT")
		w.Delete(shop, "retries", "retry-all-"+shop)
		w.Put("meshes", leaving(shop))
		w.Put("external-services", servedOutside(shop, "clear", "http", clear.Listener.Addr(), nil))
		w.Put("external-services", servedOutside(shop, "files", "tcp", files.Addr(), nil))
		out = framework.FreePorts(1)[0]
		web = w.start("web-1", tags{service: "web"}, "clear", "files", "bank")
		jobs = w.start("jobs-1", tags{service: "jobs"}, "clear", "files")
		egress = &member{Sidecar: framework.NewEgress(w.cp, "default", "out", egressFile(out), "--workload-address", outward()+"/32").Start()}
		w.ready(web, jobs, egress)
		authority, elsewhere = newRoot(), rootOf(office)
		w.rotate(authority)
		Eventually(func() bool {
			for _, m := range []*member{web, jobs, egress} {
				identity, roots := m.trust()
				if len(roots) != 1 || identity == nil || identity.CheckSignatureFrom(authority.cert) != nil {
					return false
				}
			}
			return true
		}, patience).Should(BeTrue())
		answers(web.to("clear"), 200)
		answers(jobs.to("clear"), 200)
	})

	It("a MeshTrafficPermission decides at the egress, whoever has a way there", func() {
		w.Put("meshtrafficpermissions", aimed("MeshTrafficPermission", "clear", ref("clear", nil), item(ref("web", nil), does("Allow"))))
		w.Converged()
		Expect(called(web.to("clear"))).To(Equal(200))
		Expect(called(jobs.to("clear"))).To(Equal(403))
		Expect(asks(out, clearSNI, identity("web"))).To(Equal("200"))
		refused := egress.Stats()["http.shop_clear.rbac.denied"]
		Expect(asks(out, clearSNI, identity("jobs"))).To(Equal("403"), "past the proxy of the caller")
		Expect(egress.Stats()["http.shop_clear.rbac.denied"]).To(Equal(refused+1), "by the egress")

		w.Put("meshtrafficpermissions", aimed("MeshTrafficPermission", "clear", ref("clear", nil), item(ref("", nil), does("Allow")), item(ref("web", nil), does("Deny"))))
		w.Converged()
		Expect(called(web.to("clear"))).To(Equal(403))
		Expect(called(jobs.to("clear"))).To(Equal(200))
		Expect(asks(out, clearSNI, identity("web"))).To(Equal("403"))
		Expect(asks(out, clearSNI, identity("jobs"))).To(Equal("200"))
		w.Delete(shop, "meshtrafficpermissions", "clear")
		w.Converged()
		Expect(called(web.to("clear"))).To(Equal(200))
	})

	It("faults are injected at the egress, for the callers that their certificates prove", func() {
		w.Put("fault-injections", policy("FaultInjection", "web", tags{service: "web"}, tags{service: "clear", protocol: "http"},
			map[string]any{"abort": map[string]any{"percentage": 100, "httpStatus": 418}}))
		w.Converged()
		answers(web.to("clear"), 418) // connections of before the first fault drain
		Expect(called(jobs.to("clear"))).To(Equal(200))
		Expect(asks(out, clearSNI, identity("web"))).To(Equal("418"))
		Expect(asks(out, clearSNI, identity("jobs"))).To(Equal("200"))
		Expect(asks(out, clearSNI, authority.leaf("spiffe://"+shop+"/web"))).To(Equal("200"), "who has no tags is in no group of callers")
		Expect(egress.Stat("http.shop_clear.fault.aborts_injected")).To(BeNumerically(">", 0))
		w.Delete(shop, "fault-injections", "web")
		w.Converged()
		answers(web.to("clear"), 200)
	})

	It("a service of TCP is called as one of HTTP, and permitted to the same", func() {
		says := func(m *member) string {
			conn, lines := dialEcho(m.port2("files"))
			defer func() { _ = conn.Close() }()
			return conn.say(lines, "hello")
		}
		Eventually(func() string { return says(web) }, patience, 20*time.Millisecond).Should(Equal("files hello"))
		Expect(says(jobs)).To(Equal("files hello"))
		Expect(egress.Stat("cluster.shop_files.upstream_cx_total")).To(BeNumerically(">=", 2))
		clusters, err := web.Admin("/clusters")
		Expect(err).NotTo(HaveOccurred())
		Expect(clusters).NotTo(ContainSubstring(files.Addr().String()))

		w.Delete(shop, "traffic-permissions", allowAll)
		w.Put("traffic-permissions", policy("TrafficPermission", "files", tags{service: "web"}, tags{service: "files"}, nil))
		w.Put("traffic-permissions", policy("TrafficPermission", "clear", tags{service: "*"}, tags{service: "clear"}, nil))
		w.Converged()
		Expect(says(web)).To(Equal("files hello"))
		Expect(says(jobs)).To(BeEmpty())
		Expect(line(out, filesSNI, identity("web"))).To(Equal("files hello"))
		Expect(line(out, filesSNI, identity("jobs"))).To(BeEmpty(), "past the proxy of the caller")
		Expect(line(out, filesSNI, newRoot().leaf("spiffe://shop/web"))).To(BeEmpty())
	})

	It("two meshes have one egress, and each only its own services", func() {
		one, two := [2]string{}, [2]string{}
		one[0], one[1] = framework.Certificate("one")
		two[0], two[1] = framework.Certificate("two")
		bank.accept(one[0], two[0])
		w.Put("meshes", leaving(office))
		w.rotateIn(office, elsewhere)
		w.Put("traffic-permissions", policy("TrafficPermission", "bank", tags{service: "web"}, tags{service: "bank"}, nil))
		w.Put("external-services", servedOutside(shop, "bank", "http", bank.Listener.Addr(), presenting(one)))
		w.Put("external-services", servedOutside(office, "bank", "http", bank.Listener.Addr(), presenting(two)))
		w.Put("external-services", servedOutside(office, "clear", "http", other.Listener.Addr(), nil))
		w.Put("external-services", servedOutside(office, "only", "http", other.Listener.Addr(), nil))
		till = w.describe("till-1", tags{service: "web"}, "clear", "bank", "files", "only")
		till.doc["mesh"] = office
		w.Put("dataplanes", till.doc)
		till.Sidecar = framework.NewSidecar(w.cp, office, "till-1", "").Start()
		w.ready(till)

		By("calling, each by names that the other has too")
		answers(till.to("clear"), 200)
		answers(till.to("only"), 200)
		answers(web.to("bank"), 200)
		answers(till.to("bank"), 200)
		Expect(answer(web.to("bank"))).To(Equal(`200 {"client":"one"}`))
		Expect(answer(till.to("bank"))).To(Equal(`200 {"client":"two"}`))
		before, beforeOther := egress.Stat("cluster.shop_clear.upstream_rq_total"), egress.Stat("cluster.office_clear.upstream_rq_total")
		Expect(called(web.to("clear"))).To(Equal(200))
		Expect(called(till.to("clear"))).To(Equal(200))
		Expect(egress.Stat("cluster.shop_clear.upstream_rq_total")).To(Equal(before + 1))
		Expect(egress.Stat("cluster.office_clear.upstream_rq_total")).To(Equal(beforeOther + 1))
		Expect(called(till.to("files"))).NotTo(Equal(200), "a service of the other mesh")

		By("showing an identity of the other one, which opens nothing")
		theirs := elsewhere.leaf("spiffe://" + office + "/web")
		Expect(asks(out, "clear{mesh=office}", theirs)).To(Equal("200"))
		Expect(asks(out, "only{mesh=office}", theirs)).To(Equal("200"))
		Expect(asks(out, clearSNI, identity("web"))).To(Equal("200"))
		for sni, who := range map[string]*tls.Certificate{
			clearSNI: theirs, "bank{mesh=shop}": theirs, "clear{mesh=office}": identity("web"), "bank{mesh=office}": identity("web"),
			"only{mesh=shop}": identity("web"), "files{mesh=office}": theirs,
		} {
			Expect(asks(out, sni, who)).NotTo(MatchRegexp(`^\d+$`), sni)
		}
		Expect(asks(out, clearSNI, elsewhere.leaf("spiffe://"+shop+"/web"))).NotTo(MatchRegexp(`^\d+$`), "a name that is not the mesh's to give")
		Expect(line(out, filesSNI, theirs)).To(BeEmpty())

		By("hearing who the egress is, in each mesh another one")
		for name, is := range map[string]struct {
			by  *root
			who *tls.Certificate
		}{shop: {authority, identity("web")}, office: {elsewhere, theirs}} {
			shown := vouched(out, "clear{mesh="+name+"}", is.who)
			Expect(shown.CheckSignatureFrom(is.by.cert)).To(Succeed(), name)
			Expect(shown.URIs).To(HaveLen(1))
			Expect(shown.URIs[0].String()).To(Equal("spiffe://" + name + "/zoneegress"))
		}

		By("leaving, which is nothing to the other one")
		load := framework.StartTraffic(web.to("clear"), nil, 2)
		load.Served(50)
		w.Put("meshes", secured(office))
		w.Converged()
		Expect(asks(out, "clear{mesh=office}", theirs)).NotTo(MatchRegexp(`^\d+$`))
		dump, err := egress.Admin("/config_dump")
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Count(dump, "clear{mesh=office}")).To(BeZero())
		load.Served(50)
		none(load)
	})

	// Nobody tries again, so whoever is led to an egress that does not listen fails.
	It("one that was killed fails its callers while it is away, and is called again only when it listens", func() {
		refused := func() (n int) {
			for name, of := range web.Stats() {
				if strings.HasPrefix(name, "cluster.clear-zoneegress.") && strings.HasSuffix(name, ".upstream_cx_connect_fail") {
					n += of
				}
			}
			return n
		}
		answers(web.to("clear"), 200)
		before := framework.StartTraffic(web.to("clear"), nil, 2)
		before.Served(100)
		none(before)

		By("killing it and its Envoy, which leaves nobody to deregister it")
		load := framework.StartTraffic(web.to("clear"), nil, 2)
		load.Served(50)
		envoy := framework.RunningEnvoy(egress.StateDir)
		egress.Kill()
		_ = syscall.Kill(envoy, syscall.SIGKILL) // it may have ended with its agent
		// The first to fail may be those on connections that were open: nobody was refused for them.
		Eventually(refused, patience, 10*time.Millisecond).Should(BeNumerically(">", 0))

		By("starting it again: it is registered before it listens, and not called")
		egress = &member{Sidecar: framework.NewEgress(w.cp, "default", "out", egressFile(out), "--workload-address", outward()+"/32").Start()}
		Eventually(func() string { return answer(web.to("clear")) }, patience, 5*time.Millisecond).Should(Equal("503 no healthy upstream"))
		refusals := refused()
		w.ready(egress)
		answers(web.to("clear"), 200)
		load.Served(100)
		Expect(refused()).To(Equal(refusals), "somebody called it before it listened")
		_, failures := load.Stop()
		Expect(failures).NotTo(BeEmpty())
		Expect(failures).To(HaveEach(ContainSubstring(" times 503 ")))

		By("calling it as before")
		after := framework.StartTraffic(web.to("clear"), nil, 2)
		fresh := framework.StartConnections(web.to("clear"), nil, 2, 10)
		after.Served(200)
		fresh.Served(200)
		none(after)
		none(fresh)
	})
})
