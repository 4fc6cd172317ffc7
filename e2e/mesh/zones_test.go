package mesh_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// zoneWorld is the control plane of a zone, with a mesh whose authority other zones share.
type zoneWorld struct {
	*world
	zone string
}

// shared is the mesh with an authority that both zones have.
func shared(name, certificate, key string, more map[string]any) framework.Document {
	d := framework.Document{"type": "Mesh", "name": name, "mtls": map[string]any{
		"enabledBackend": "own", "backends": []any{map[string]any{"name": "own", "type": "provided", "conf": map[string]any{
			"cert": map[string]any{"inlineString": certificate}, "key": map[string]any{"inlineString": key},
		}}},
	}}
	for k, v := range more {
		d[k] = v
	}
	return d
}

func newZone(zone string) *zoneWorld {
	file := filepath.Join(GinkgoT().TempDir(), zone+".yaml")
	writeFile(file, []byte("zone:\n  name: "+zone+"\n"))
	cp := framework.NewControlPlane("run", "--config", file).Start()
	return &zoneWorld{&world{API: cp.API(), cp: cp}, zone}
}

// available are the services that a zone says others can reach: <mesh> <service> and the version.
func (z *zoneWorld) available(ingress string) (out []string) {
	for _, s := range z.services(ingress) {
		out = append(out, fmt.Sprintf("%s %s %s %d", s.Mesh, s.Tags[service], s.Tags["version"], s.Instances))
	}
	return out
}

type availableService struct {
	Mesh      string `json:"mesh"`
	Tags      tags   `json:"tags"`
	Instances int    `json:"instances"`
}

func (z *zoneWorld) services(ingress string) []availableService {
	r := z.Mesh(http.MethodGet, "/zone-ingresses/"+ingress+"/_overview", nil)
	ExpectWithOffset(2, r.Status).To(Equal(http.StatusOK), r.Body)
	var doc struct {
		ZoneIngress struct {
			Available []availableService `json:"availableServices"`
		} `json:"zoneIngress"`
	}
	ExpectWithOffset(2, json.Unmarshal([]byte(r.Body), &doc)).To(Succeed())
	return doc.ZoneIngress.Available
}

// counts waits until a zone counts so many of its proxies of a sort.
func (z *zoneWorld) counts(sort string, online, total float64) {
	GinkgoHelper()
	Eventually(func() any { return z.Get("/global-insight")["zones"].(map[string]any)[sort] }, patience).Should(Equal(map[string]any{"online": online, "total": total}))
}

// learns registers the ingress of another zone by hand, as that zone describes it.
func (z *zoneWorld) learns(from *zoneWorld, ingress string) {
	doc := framework.Document(from.Get("/zone-ingresses/" + ingress))
	for _, own := range []string{"creationTime", "modificationTime", "labels"} {
		delete(doc, own)
	}
	doc["zone"] = from.zone
	z.Put("zone-ingresses", doc)
}

// tokenID is the id of a token.
func tokenID(token string) string {
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	var claims struct {
		ID string `json:"jti"`
	}
	ExpectWithOffset(1, json.Unmarshal(payload, &claims)).To(Succeed())
	return claims.ID
}

// greeted opens a connection with a server name, and returns why that fails.
func greeted(port int, sni string) error {
	dialer := &tls.Dialer{Config: &tls.Config{ServerName: sni, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, NextProtos: []string{"mesh"}}}
	ctx := bounded("")
	conn, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		_ = conn.Close()
	}
	return err
}

var _ = Describe("zones", Ordered, core, func() {
	var (
		east, west   *zoneWorld
		ingress      *framework.Sidecar
		port         int
		web          *member
		first        *member
		certificates = map[string][2]string{}
	)
	// both stores a mesh in both zones.
	both := func(name string, more map[string]any) {
		for _, z := range []*zoneWorld{east, west} {
			z.Put("meshes", shared(name, certificates[name][0], certificates[name][1], more))
		}
	}
	named := func(name string) func() string {
		return func() string {
			r, err := get(web.to("backend"))
			if err != nil || r.Status != http.StatusOK {
				return ""
			}
			return r.Received().Name
		}
	}

	BeforeAll(func() {
		east, west = newZone("east"), newZone("west")
		for _, name := range []string{shop, "bank"} {
			c, k := framework.MeshRoot(name)
			certificates[name] = [2]string{c, k}
			both(name, nil)
		}
		for _, z := range []*zoneWorld{east, west} {
			z.Delete(shop, "retries", "retry-all-"+shop) // nothing else makes good what fails
		}
		west.Put("meshes", framework.Document{"type": "Mesh", "name": "plain"})
		port = framework.FreePorts(1)[0]
		file := filepath.Join(GinkgoT().TempDir(), "ingress.yaml")
		writeFile(file, []byte(fmt.Sprintf(`type: ZoneIngress
name: {{ name }}
networking:
  address: 127.0.0.1
  port: %d
  advertisedAddress: 127.0.0.1
  advertisedPort: %d
`, port, port)))
		ingress = framework.NewIngress(west.cp, "west", "west-in", file, "--dataplane-var", "name=west-in").Start()
		ingress.WaitReady()
		first = west.start("backend-1", tags{service: "backend", "version": "v1"})
		for _, other := range []string{"bank", "plain"} {
			west.Put("dataplanes", framework.Document{"type": "Dataplane", "mesh": other, "name": "ledger-1", "networking": map[string]any{
				"address": "127.0.0.1", "inbound": []any{map[string]any{"port": 1, "tags": tags{service: "ledger-" + other}}},
			}})
		}
		west.ready(first)
		web = east.start("web-1", tags{service: "web", "mesh.io/zone": "east"}, "backend")
		east.ready(web)
	})

	It("the services of meshes with mutual TLS are available, and the ingress is online", func() {
		Eventually(func() []string { return west.available("west-in") }, patience).Should(ConsistOf("shop backend v1 1", "bank ledger-bank  1"))
		r := west.Mesh(http.MethodGet, "/zone-ingresses/west-in/_overview", nil)
		var doc struct {
			Insight struct {
				Subscriptions []struct {
					Connect    time.Time  `json:"connectTime"`
					Disconnect *time.Time `json:"disconnectTime"`
				} `json:"subscriptions"`
			} `json:"zoneIngressInsight"`
		}
		Expect(json.Unmarshal([]byte(r.Body), &doc)).To(Succeed(), r.Body)
		Expect(doc.Insight.Subscriptions).To(HaveLen(1), r.Body)
		Expect(doc.Insight.Subscriptions[0].Disconnect).To(BeNil())
		west.counts("zoneIngresses", 1, 1)
		Eventually(func() map[string]any { return west.Get("/nodes/zone%2Fingress%2Fwest-in") }, patience).Should(And(HaveKeyWithValue("type", "ingress"), HaveKeyWithValue("inStep", true)))
	})

	It("a service of another zone is called through its ingress", func() {
		Expect(called(web.to("backend"))).NotTo(Equal(200))
		east.learns(west, "west-in")
		Eventually(named("backend-1"), patience).Should(Equal("backend-1"))
		Expect(ingress.Stat("tcp.shop_backend.downstream_cx_total")).To(BeNumerically(">", 0))
	})

	It("whoever has a permission is judged by the service's own proxy", func() {
		west.Put("traffic-permissions", policy("TrafficPermission", allowAll, tags{service: "nobody"}, tags{service: "*"}, nil))
		west.Converged()
		answers(web.to("backend"), http.StatusForbidden)
		west.Put("traffic-permissions", policy("TrafficPermission", allowAll, tags{service: "*"}, tags{service: "*"}, nil))
		answers(web.to("backend"), 200)
	})

	It("instances are chosen by tags", func() {
		second := west.start("backend-2", tags{service: "backend", "version": "v2"})
		west.ready(second)
		Eventually(func() []string { return west.available("west-in") }, patience).Should(ContainElement("shop backend v2 1"))
		east.learns(west, "west-in")
		east.route(map[string]any{"split": []any{share(1, tags{service: "backend", "version": "v2"})}})
		east.Converged()
		Eventually(named("backend"), patience).Should(Equal("backend-2"))
		for range 20 {
			Expect(named("backend")()).To(Equal("backend-2"))
		}
		east.route(map[string]any{"split": []any{share(1, tags{service: "backend", "mesh.io/zone": "west", "version": "v1"})}})
		east.Converged()
		Eventually(named("backend"), patience).Should(Equal("backend-1"))
		east.Delete(shop, "traffic-routes", "to-backend")
		west.Delete(shop, "dataplanes", "backend-2")
		east.Converged()
		second.Stop()
		Eventually(func() []string { return west.available("west-in") }, patience).Should(ConsistOf("shop backend v1 1", "bank ledger-bank  1"))
	})

	It("instances come and go without a failed request", func() {
		var latest atomic.Value
		latest.Store("")
		// Each instance leads a life in which it is the newest, and then the only one.
		come := func(name string) *member {
			GinkgoHelper()
			m := west.registeringAs(name, tags{"version": "more"})
			m.WaitReady()
			west.Converged()
			return m
		}
		known := func(n int) {
			GinkgoHelper()
			Eventually(func() []string { return west.available("west-in") }, patience).Should(ContainElement(fmt.Sprintf("shop backend more %d", n)))
			east.learns(west, "west-in")
			east.Converged()
		}
		old := come("more-0")
		known(1)
		east.route(map[string]any{"split": []any{share(1, tags{service: "backend", "version": "more"})}})
		east.Converged()
		Eventually(named("more-0"), patience).Should(Equal("more-0"))
		load := framework.StartChecked(web.to("backend"), nil, 4, 20, func(r *framework.Response) string {
			name := r.Received().Name
			latest.Store(name)
			if !strings.HasPrefix(name, "more-") {
				return name + " has another version"
			}
			return ""
		})
		for i := range 3 {
			next := come(fmt.Sprintf("more-%d", i+1))
			known(2)
			old.Signal(term)
			Eventually(latest.Load, patience).Should(Equal(fmt.Sprintf("more-%d", i+1)), "connections go where there is somebody")
			Expect(old.Exit(patience)).To(BeZero(), old.Output())
			known(1)
			load.Served(100)
			old = next
		}
		none(load)
		east.Delete(shop, "traffic-routes", "to-backend")
		east.Converged()
		old.Signal(term)
		Expect(old.Exit(patience)).To(BeZero(), old.Output())
		Eventually(named("backend-1"), patience).Should(Equal("backend-1"))
		Eventually(func() []string { return west.available("west-in") }, patience).Should(ConsistOf("shop backend v1 1", "bank ledger-bank  1"))
		east.learns(west, "west-in")
	})

	It("a service without any instance fails requests, only then, and is called again without a restart", func() {
		caller := east.start("web-2", tags{service: "web", "mesh.io/zone": "east"}, "shy")
		east.ready(caller)
		// known has both zones know the instances of the service.
		known := func(want OmegaMatcher) {
			GinkgoHelper()
			west.Converged()
			Eventually(func() []string { return west.available("west-in") }, patience).Should(want)
			east.learns(west, "west-in")
			east.Converged()
		}
		there := ContainElement("shop shy  1")
		come := func(name string) *member {
			GinkgoHelper()
			m := west.start(name, tags{service: "shy"})
			west.ready(m)
			known(there)
			return m
		}
		gone := func(m *member) {
			GinkgoHelper()
			west.Delete(shop, "dataplanes", m.Name)
			known(Not(there))
			Eventually(func() int { return called(caller.to("shy")) }, patience, 10*time.Millisecond).ShouldNot(Equal(200))
			m.Stop()
		}
		instance := come("shy-1")
		answers(caller.to("shy"), 200)
		load := framework.StartTraffic(caller.to("shy"), http.Header{}, 4)
		serves := func() (failed int) {
			GinkgoHelper()
			load.Served(100) // what was on its way may still fail
			failed = load.Failed()
			load.Served(300)
			Expect(load.Failed()).To(Equal(failed), "failures while there is an instance")
			return failed
		}
		// again waits until each worker of each proxy does what all have confirmed. New connections fall to
		// workers by chance, and so many in a row leave none out.
		again := func() {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				for range 20 {
					g.Expect(called(caller.to("shy"))).To(Equal(200))
				}
			}, lag, 5*time.Millisecond).Should(Succeed())
		}
		for i := range 3 {
			failed := serves()
			gone(instance)
			Eventually(load.Failed, patience, 10*time.Millisecond).Should(BeNumerically(">", failed))
			instance = come(fmt.Sprintf("shy-%d", i+2))
			again()
		}
		serves()
		total, failures := load.Stop()
		AddReportEntry("requests, with the failures while there was nobody", fmt.Sprint(total, failures), ReportEntryVisibilityFailureOrVerbose)
		gone(instance)
		east.Delete(shop, "dataplanes", "web-2")
		caller.Stop()
	})

	It("other server names, and none, are refused", func() {
		Expect(greeted(port, "ledger-bank{mesh=shop}")).NotTo(Succeed())
		Expect(greeted(port, "ledger-plain{mesh=plain}")).NotTo(Succeed())
		Expect(greeted(port, "backend{mesh=bank}")).NotTo(Succeed())
		Expect(greeted(port, "")).NotTo(Succeed())
		// The proxy of the service asks for a certificate.
		Expect(greeted(port, "backend{mesh=shop}")).To(Succeed())
	})

	It("an ingress has no key of any mesh", func() {
		dump, err := ingress.Admin("/config_dump")
		Expect(err).NotTo(HaveOccurred())
		Expect(dump).To(ContainSubstring("backend{mesh=shop}"))
		Expect(dump).NotTo(ContainSubstring("identity_cert"))
		Expect(dump).NotTo(ContainSubstring("mesh_ca"))
	})

	It("the own zone comes first, and the other one when it has none left", func() {
		both(shop, map[string]any{"routing": map[string]any{"localityAwareLoadBalancing": true}})
		own := east.start("own-1", tags{service: "backend", "mesh.io/zone": "east"})
		east.ready(own)
		Eventually(named("backend"), patience).Should(Equal("own-1"))
		for range 20 {
			Expect(named("backend")()).To(Equal("own-1"))
		}
		east.Delete(shop, "dataplanes", "own-1")
		east.Converged()
		Eventually(named("backend"), patience).Should(Equal("backend-1"))
		own.Stop()
	})

	It("a zone that is switched off is not called", func() {
		east.Put("zones", framework.Document{"type": "Zone", "name": "west", "enabled": false})
		east.Converged()
		Eventually(func() int { return called(web.to("backend")) }, patience).ShouldNot(Equal(200))
		east.Put("zones", framework.Document{"type": "Zone", "name": "west"})
		answers(web.to("backend"), 200)
	})

	It("tokens of other zones and scopes, and revoked ones, are refused", func() {
		refused := func(token string) {
			GinkgoHelper()
			other := framework.NewIngress(west.cp, "west", "west-in", "")
			other.WriteToken(token)
			other.Start()
			other.Exit(patience)
			Expect(other.Output()).To(ContainSubstring("refused the enrolment with 403"))
		}
		refused(west.ZoneToken("east", "ingress"))
		refused(west.ZoneToken("west", "egress"))
		old := ingress.Token()
		west.Mesh(http.MethodPut, "/global-secrets/zone-token-revocations", map[string]any{
			"type": "GlobalSecret", "name": "zone-token-revocations", "data": base64.StdEncoding.EncodeToString([]byte(tokenID(old))),
		})
		Eventually(func() any { return west.Get("/nodes/zone%2Fingress%2Fwest-in")["state"] }, patience).Should(Equal("refused"))
		ingress.WriteToken(west.ZoneToken("west", "ingress"))
		Eventually(func() any { return west.Get("/nodes/zone%2Fingress%2Fwest-in")["state"] }, patience).Should(Equal("connected"))
		answers(web.to("backend"), 200)
	})

	It("other zones are called through the egress of the own one, and not without it", func() {
		unreached := func() {
			GinkgoHelper()
			Eventually(func() int { return called(web.to("backend")) }, patience).ShouldNot(Equal(200))
		}
		both(shop, map[string]any{"routing": map[string]any{"zoneEgress": true}})
		east.Converged()
		unreached()
		Eventually(func() string { return fmt.Sprint(east.Get("/nodes/" + shop + ".web-1")) }, patience).Should(ContainSubstring("no egress of the zone leads to"))

		out := framework.FreePorts(1)[0]
		file := filepath.Join(GinkgoT().TempDir(), "egress.yaml")
		writeFile(file, []byte(fmt.Sprintf("type: ZoneEgress\nname: east-out\nnetworking: {address: 127.0.0.1, port: %d}\n", out)))
		egress := framework.NewEgress(east.cp, "east", "east-out", file).Start()
		egress.WaitReady()
		east.Converged()
		answers(web.to("backend"), 200)
		Expect(named("backend-1")()).To(Equal("backend-1"))
		Expect(egress.Stat("tcp.shop_backend.downstream_cx_total")).To(BeNumerically(">", 0))
		Eventually(func() map[string]any { return east.Get("/nodes/zone%2Fegress%2Feast-out") }, patience).Should(And(HaveKeyWithValue("type", "egress"), HaveKeyWithValue("inStep", true)))
		east.counts("zoneEgresses", 1, 1)

		// It is for what is in other zones, of meshes that want it.
		Expect(greeted(out, "backend{mesh=shop}")).To(Succeed())
		Expect(greeted(out, "web{mesh=shop}")).NotTo(Succeed())
		Expect(greeted(out, "ledger-bank{mesh=bank}")).NotTo(Succeed())
		Expect(greeted(out, "")).NotTo(Succeed())
		dump, err := egress.Admin("/config_dump")
		Expect(err).NotTo(HaveOccurred())
		Expect(dump).To(ContainSubstring("backend{mesh=shop}"))
		Expect(dump).NotTo(ContainSubstring("identity_cert"))
		Expect(dump).NotTo(ContainSubstring("mesh_ca"))

		// The sidecar has no address of the other zone.
		held, err := web.Admin("/clusters")
		Expect(err).NotTo(HaveOccurred())
		Expect(held).To(ContainSubstring(fmt.Sprintf("backend::127.0.0.1:%d::", out)))
		Expect(held).NotTo(ContainSubstring(fmt.Sprintf("backend::127.0.0.1:%d::", port)))

		egress.Signal(term)
		egress.Exit(patience)
		Expect(east.Mesh(http.MethodGet, "/zoneegresses/east-out", nil).Status).To(Equal(http.StatusNotFound))
		east.Converged()
		unreached()
		both(shop, nil)
		east.Converged()
		answers(web.to("backend"), 200)
	})

	It("an egress leaves without a failed request while there is another one", func() {
		east.learns(west, "west-in")
		both(shop, map[string]any{"routing": map[string]any{"zoneEgress": true}})
		var egresses []*framework.Sidecar
		for _, name := range []string{"out-1", "out-2", "out-3"} {
			file := filepath.Join(GinkgoT().TempDir(), name+".yaml")
			writeFile(file, []byte(fmt.Sprintf("type: ZoneEgress\nname: %s\nnetworking: {address: 127.0.0.1, port: %d}\n", name, framework.FreePorts(1)[0])))
			egress := framework.NewEgress(east.cp, "east", name, file).Start()
			egress.WaitReady()
			egresses = append(egresses, egress)
		}
		east.Converged()
		answers(web.to("backend"), 200)
		load := framework.StartConnections(web.to("backend"), nil, 4, 20)
		for _, egress := range egresses[:2] {
			Eventually(func() int { return egress.Stat("tcp.shop_backend.downstream_cx_total") }, patience).Should(BeNumerically(">", 0))
			load.Served(200)
			egress.Signal(term)
			egress.Exit(patience)
			Expect(egress.Output()).NotTo(ContainSubstring("the time to drain is over"))
			Expect(east.Mesh(http.MethodGet, "/zoneegresses/"+egress.Name, nil).Status).To(Equal(http.StatusNotFound))
			Eventually(func() int { return east.Mesh(http.MethodGet, "/nodes/zone%2Fegress%2F"+egress.Name, nil).Status }, patience).Should(Equal(http.StatusNotFound), "it was not turned away")
			load.Served(200)
		}
		none(load)
		egresses[2].Stop()
		both(shop, nil)
		east.Converged()
		answers(web.to("backend"), 200)
	})

	It("an ingress that is away is known, also to a control plane that starts anew", func() {
		state := func() any { return west.Get("/nodes/zone%2Fingress%2Fwest-in")["state"] }
		ingress.Kill()
		Eventually(state, patience).Should(Equal("away"))
		west.counts("zoneIngresses", 0, 1)
		west.cp.Stop()
		west.cp.Start()
		Expect(state()).To(Equal("away"))
		west.counts("zoneIngresses", 0, 1)
		ingress.Start()
		Eventually(state, patience).Should(Equal("connected"))
		west.counts("zoneIngresses", 1, 1)
		answers(web.to("backend"), 200)

		By("leaving, which deregisters it")
		ingress.Signal(term)
		ingress.Exit(patience)
		Expect(west.Mesh(http.MethodGet, "/zone-ingresses/west-in", nil).Status).To(Equal(http.StatusNotFound))
	})
})
