package mesh_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// office is the mesh with the gateway that proxies of other meshes call.
const office = "office"

// rootOf is a root of a mesh.
func rootOf(mesh string) *root {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	t := template()
	t.Subject, t.URIs = pkix.Name{CommonName: mesh}, []*url.URL{{Scheme: "spiffe", Host: mesh}}
	t.IsCA, t.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	Expect(err).NotTo(HaveOccurred())
	r := &root{key: key}
	r.cert, err = x509.ParseCertificate(der)
	Expect(err).NotTo(HaveOccurred())
	private, err := x509.MarshalPKCS8PrivateKey(key)
	Expect(err).NotTo(HaveOccurred())
	r.certData = base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	r.keyB64 = base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	return r
}

// rotateIn replaces the authority of a mesh.
func (w *world) rotateIn(mesh string, to *root) {
	w.Put("secrets", framework.Document{"type": "Secret", "mesh": mesh, "name": mesh + ".ca-builtin-key-ca-1", "data": to.keyB64})
	w.Put("secrets", framework.Document{"type": "Secret", "mesh": mesh, "name": mesh + ".ca-builtin-cert-ca-1", "data": to.certData})
}

// secured is a mesh with mutual TLS.
func secured(mesh string) framework.Document {
	return framework.Document{"type": "Mesh", "name": mesh, "mtls": map[string]any{
		"enabledBackend": "ca-1", "backends": []any{map[string]any{"name": "ca-1", "type": "builtin"}},
	}}
}

// holding is what an Envoy has under the name of a secret: a certificate, or roots.
func holding(s *framework.Sidecar, secret string) []*x509.Certificate {
	GinkgoHelper()
	return secretsOf(s)[secret]
}

// secretsOf are the certificates and roots of an Envoy by the names of their secrets.
func secretsOf(s *framework.Sidecar) map[string][]*x509.Certificate {
	GinkgoHelper()
	text, err := s.Admin("/config_dump")
	Expect(err).NotTo(HaveOccurred())
	var dump struct {
		Configs []struct {
			Active []struct {
				Name   string
				Secret struct {
					Certificate struct {
						Chain inline `json:"certificate_chain"`
					} `json:"tls_certificate"`
					Validation struct {
						Trusted inline `json:"trusted_ca"`
					} `json:"validation_context"`
				}
			} `json:"dynamic_active_secrets"`
		}
	}
	Expect(json.Unmarshal([]byte(text), &dump)).To(Succeed())
	held := map[string][]*x509.Certificate{}
	for _, c := range dump.Configs {
		for _, s := range c.Active {
			b := s.Secret.Certificate.Chain.Bytes
			if len(b) == 0 {
				b = s.Secret.Validation.Trusted.Bytes
			}
			if len(b) > 0 {
				held[s.Name] = parse(b)
			}
		}
	}
	return held
}

// names returns a certificate of a root with several names.
func (r *root) names(identities ...string) *tls.Certificate {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	t := template()
	for _, i := range identities {
		u, err := url.Parse(i)
		Expect(err).NotTo(HaveOccurred())
		t.URIs = append(t.URIs, u)
	}
	t.KeyUsage, t.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, t, r.cert, key.Public(), r.key)
	Expect(err).NotTo(HaveOccurred())
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

var _ = Describe("gateways that other meshes call", Ordered, core, func() {
	var (
		w             *world
		web           *member
		gateway       *framework.Sidecar
		backend       *member
		port          int
		dns, redirect int
		roots         map[string]*root
	)
	selectors := []any{map[string]any{"match": tags{service: "door"}}}
	serve := func(path string) {
		w.Put("meshgatewayroutes", framework.Document{
			"type": "MeshGatewayRoute", "mesh": office, "name": "all", "selectors": selectors,
			"conf": map[string]any{"http": map[string]any{"rules": []any{map[string]any{
				"matches":  []any{map[string]any{"path": map[string]any{"match": "PREFIX", "value": path}}},
				"backends": []any{map[string]any{"weight": 1, "destination": tags{service: "backend"}}},
			}}}},
		})
	}
	door := func(address string) {
		w.Put("dataplanes", framework.Document{"type": "Dataplane", "mesh": office, "name": "door-1", "networking": map[string]any{
			"address": address, "gateway": map[string]any{"type": "BUILTIN", "tags": tags{service: "door"}},
		}})
	}
	byName := func() entry { return entry{port: web.out["door"], host: "door.example"} }
	at := func() string { return fmt.Sprintf("127.0.0.1:%d", port) }
	inMesh := func(mesh, name string) framework.Document {
		m := w.describe(name, tags{service: name})
		m.doc["mesh"] = mesh
		return m.doc
	}

	BeforeAll(func() {
		w = newWorld("STRICT")
		roots = map[string]*root{shop: rootOf(shop), office: rootOf(office), "third": rootOf("third")}
		for mesh, r := range roots {
			w.Put("meshes", secured(mesh))
			w.rotateIn(mesh, r)
		}
		ports := framework.FreePorts(4)
		port, dns, redirect = ports[0], ports[1], ports[2]
		w.Put("meshgateways", framework.Document{"type": "MeshGateway", "mesh": office, "name": "door", "selectors": selectors, "conf": map[string]any{"listeners": []any{
			map[string]any{"port": port, "protocol": "HTTP", "hostname": "door.example", "crossMesh": true},
			map[string]any{"port": port, "protocol": "HTTP", "crossMesh": true},
		}}})
		serve("/")
		door("127.0.0.1")
		backend = w.describe("backend", tags{service: "backend"})
		backend.doc["mesh"] = office
		w.Put("dataplanes", backend.doc)
		backend.Sidecar = framework.NewSidecar(w.cp, office, "backend", "").Start()
		gateway = framework.NewSidecar(w.cp, office, "door-1", "", "--proxy-type", "gateway").Start()
		web = w.describe("web-1", tags{service: "web"}, "door")
		web.doc["networking"].(map[string]any)["outbound"] = []any{map[string]any{"port": web.out["door"], "tags": tags{service: "door", "mesh.io/mesh": office}}}
		w.join(web)
		w.ready(web, backend)
		gateway.WaitReady()
		w.Converged()
	})

	It("answer proxies of another mesh by their host name, and services see the gateway", func() {
		Eventually(func() int { return byName().status("/x") }, patience, 20*time.Millisecond).Should(Equal(200))
		with := byName()
		with.header = http.Header{"X-Forwarded-Client-Cert": {"URI=spiffe://" + office + "/root"}}
		got := with.get("/x").Received()
		Expect(got.Name).To(Equal("backend"))
		Expect(got.Host).To(Equal("door.example"))
		Expect(strings.Join(got.Headers["X-Forwarded-Client-Cert"], " ")).To(And(
			ContainSubstring("spiffe://"+office+"/door"), Not(ContainSubstring("spiffe://"+office+"/root")), Not(ContainSubstring("spiffe://"+shop))))
	})

	It("let in whoever is of a mesh by the roots of just that mesh, and nobody else", func() {
		Expect(handshake(at(), roots[shop].leaf("spiffe://"+shop+"/anything"))).To(Succeed())
		Eventually(func() error { return handshake(at(), roots["third"].leaf("spiffe://third/anything")) }, patience, 20*time.Millisecond).Should(Succeed())
		Expect(handshake(at(), roots[office].leaf("spiffe://"+office+"/backend"))).To(Succeed())
		for what, certificate := range map[string]*tls.Certificate{
			"none":                             nil,
			"of third for an identity of shop": roots["third"].leaf("spiffe://" + shop + "/web"),
			"of third for one of office":       roots["third"].leaf("spiffe://" + office + "/door"),
			"of third for two meshes":          roots["third"].names("spiffe://"+shop+"/web", "spiffe://third/web"),
			"of shop for one of third":         roots[shop].leaf("spiffe://third/web"),
			"of nobody":                        newRoot().leaf("spiffe://" + shop + "/web"),
			"for a mesh that is not there":     roots["third"].leaf("spiffe://fourth/web"),
		} {
			Expect(handshake(at(), certificate)).NotTo(Succeed(), "a certificate "+what)
		}
		Expect(handshake(backend.inbound(), roots[shop].leaf("spiffe://"+shop+"/web"))).NotTo(Succeed(), "nothing else of the mesh is open")
	})

	It("are not called from a mesh without mutual TLS, which says so", func() {
		w.Put("meshes", framework.Document{"type": "Mesh", "name": "clear"})
		out := framework.FreePorts(1)[0]
		doc := inMesh("clear", "bare")
		doc["networking"].(map[string]any)["outbound"] = []any{map[string]any{"port": out, "tags": tags{service: "door", "mesh.io/mesh": office}}}
		w.Put("dataplanes", doc)
		bare := framework.NewSidecar(w.cp, "clear", "bare", "").Start()
		bare.WaitReady()
		Expect(entry{port: out, host: "door.example"}.status("/")).NotTo(Equal(200))
		r := w.Mesh(http.MethodGet, "/meshes/clear/dataplanes+insights/bare", nil)
		Expect(r.Body).To(ContainSubstring("this mesh has no mutual TLS"))
	})

	It("are known to transparent proxies by their host names", func() {
		upstream, err := net.ListenPacket("udp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(answerNothing(upstream))
		all := w.describe("all-1", tags{service: "all"})
		networking := all.doc["networking"].(map[string]any)
		delete(networking, "outbound")
		networking["transparentProxying"] = map[string]any{"redirectPortOutbound": redirect}
		w.Put("dataplanes", all.doc)
		all.Sidecar = framework.NewSidecar(w.cp, shop, "all-1", "", "--dns-port", strconv.Itoa(dns), "--dns-upstream", upstream.LocalAddr().String()).Start()
		w.ready(all)
		DeferCleanup(func() { w.Delete(shop, "dataplanes", "all-1") }) // its certificate would keep a root
		var a netip.Addr
		Eventually(func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			found, err := framework.AtDNS("udp", dns).LookupHost(ctx, "door.example.")
			if err == nil {
				a, err = netip.ParseAddr(found[0])
			}
			return err
		}, patience, 20*time.Millisecond).Should(Succeed())
		Expect(netip.MustParsePrefix("240.0.0.0/4").Contains(a)).To(BeTrue(), a.String())
		end, err := framework.Redirect(netip.AddrPortFrom(a, uint16(port)), uint16(redirect))
		if errors.Is(err, os.ErrPermission) {
			note := exec.Command("../../.ci/not-checked", "e2e/mesh: whether a transparent proxy calls a gateway of another mesh, because connections are redirected by root only")
			note.Stdout = GinkgoWriter
			Expect(note.Run()).To(Succeed())
			return
		}
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(end()).To(Succeed()) }()
		Eventually(func() int { return entry{address: a.String(), port: port, host: "door.example"}.status("/") }, patience, 20*time.Millisecond).Should(Equal(200))
	})

	It("follow their routes, and go and come back", func() {
		serve("/only")
		Eventually(func() int { return byName().status("/x") }, patience, 20*time.Millisecond).Should(Equal(404))
		Expect(byName().status("/only/x")).To(Equal(200))
		serve("/")
		Eventually(func() int { return byName().status("/x") }, patience, 20*time.Millisecond).Should(Equal(200))
		w.Delete(office, "dataplanes", "door-1")
		Eventually(func() int { return byName().status("/x") }, patience, 20*time.Millisecond).Should(Equal(503))
		door("127.0.0.1")
		Eventually(func() int { return byName().status("/x") }, patience, 20*time.Millisecond).Should(Equal(200))
	})

	It("change roots at either end under load without a failed request, and wait for each other", func() {
		load := framework.StartTraffic(web.to("door"), http.Header{}, 1)
		fresh := framework.StartConnections(web.to("door"), http.Header{}, 1, 10)
		load.Served(50)
		identity := func(s *framework.Sidecar, mesh string) *x509.Certificate {
			return holding(s, "identity_cert:secret:"+mesh)[0]
		}
		By("the mesh of the callers")
		former, last := roots[shop], rootOf(shop)
		gateway.Signal(syscall.SIGSTOP)
		w.rotateIn(shop, last)
		Eventually(func() int { return len(holding(web.Sidecar, "mesh_ca:secret:"+shop)) }, patience, 10*time.Millisecond).Should(Equal(2))
		fresh.Served(100)
		Expect(identity(web.Sidecar, shop).CheckSignatureFrom(former.cert)).To(Succeed(), "the gateway of another mesh has not confirmed the new root")
		gateway.Signal(syscall.SIGCONT)
		Eventually(func() error { return identity(web.Sidecar, shop).CheckSignatureFrom(last.cert) }, 2*patience, 10*time.Millisecond).Should(Succeed())
		Eventually(func() error { return handshake(at(), former.leaf("spiffe://"+shop+"/web")) }, 2*patience, 50*time.Millisecond).ShouldNot(Succeed(), "the former root counts no more")
		Expect(handshake(at(), last.leaf("spiffe://"+shop+"/web"))).To(Succeed())
		fresh.Served(100)

		By("the mesh of the gateway")
		former, last = roots[office], rootOf(office)
		handshakes := web.Stat("cluster.door--office.ssl.handshake")
		web.Signal(syscall.SIGSTOP)
		w.rotateIn(office, last)
		Eventually(func() int { return len(holding(gateway, "mesh_ca:secret:"+office)) }, patience, 10*time.Millisecond).Should(Equal(2))
		fresh.Served(100)
		Expect(identity(gateway, office).CheckSignatureFrom(former.cert)).To(Succeed(), "a caller of another mesh has not confirmed the new root")
		web.Signal(syscall.SIGCONT)
		Eventually(func() error { return identity(gateway, office).CheckSignatureFrom(last.cert) }, 2*patience, 10*time.Millisecond).Should(Succeed())
		Eventually(func() bool {
			trusted := holding(web.Sidecar, "mesh_ca:secret:"+office)
			return len(trusted) == 1 && trusted[0].Equal(last.cert)
		}, 2*patience, 50*time.Millisecond).Should(BeTrue())
		fresh.Served(100)
		load.Served(100)
		Expect(web.Stat("cluster.door--office.ssl.handshake")).To(BeNumerically(">", handshakes), "connections were made anew under the new roots")
		none(load)
		none(fresh)
	})
})
