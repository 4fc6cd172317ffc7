package mesh_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// counting is an application with metrics of its own. It answers as it is told.
type counting struct {
	*httptest.Server
	port   int
	answer atomic.Pointer[http.HandlerFunc]
}

func startCounting() *counting {
	GinkgoHelper()
	c := &counting{}
	c.says("# HELP app_orders_total Orders.\n# TYPE app_orders_total counter\napp_orders_total{kind=\"a b\"} 7\n")
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*c.answer.Load())(w, r) }))
	DeferCleanup(func() { framework.EndServer(c.Server) })
	c.port = c.Listener.Addr().(*net.TCPAddr).Port
	return c
}

func (c *counting) does(h http.HandlerFunc) { c.answer.Store(&h) }

func (c *counting) says(text string) {
	c.does(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, text)
	})
}

// scraper is a client that comes from an address, with a certificate or without.
type scraper struct {
	from string
	with *tls.Certificate
	url  string
}

func (s scraper) ask() (*framework.Response, error) {
	transport := &http.Transport{
		DisableKeepAlives: true, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(s.from)}, Timeout: 5 * time.Second}).DialContext,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	if s.with != nil {
		transport.TLSClientConfig.Certificates = []tls.Certificate{*s.with}
	}
	return framework.Do(&http.Client{Transport: transport, Timeout: 15 * time.Second}, http.MethodGet, s.url, http.Header{}, "")
}

// status is that of the answer; 0 without one.
func (s scraper) status() int {
	r, err := s.ask()
	if err != nil {
		return 0
	}
	return r.Status
}

// page is the page, which is read as Prometheus does. It is empty without an answer.
func (s scraper) page() string {
	r, err := s.ask()
	if err != nil || r.Status != http.StatusOK {
		return ""
	}
	_, err = framework.ParseMetrics(r.Body)
	Expect(err).NotTo(HaveOccurred(), r.Body)
	return r.Body
}

var _ = Describe("metrics", Ordered, core, func() {
	const web1, elsewhere = "127.0.0.2", "127.0.0.1"
	var (
		w            *world
		web          *member
		orders       *counting
		authority    *root
		port, second int
		own          scraper
	)

	// metrics replaces the metrics of the mesh.
	metrics := func(conf map[string]any) {
		conf["port"] = port
		w.Put("meshes", framework.Document{
			"type": "Mesh", "name": shop,
			"mtls": map[string]any{"enabledBackend": "ca-1", "backends": []any{map[string]any{"name": "ca-1", "type": "provided", "conf": map[string]any{
				"cert": map[string]any{"inlineString": string(authority.certPEM)}, "key": map[string]any{"inlineString": string(authority.keyPEM)},
			}}}},
			"metrics": map[string]any{"enabledBackend": "p", "backends": []any{map[string]any{"name": "p", "type": "prometheus", "conf": conf}}},
		})
	}
	applications := func(more ...any) map[string]any {
		return map[string]any{"aggregate": append([]any{map[string]any{"name": "orders", "port": orders.port, "path": "/stats?format=text"}}, more...)}
	}
	eventually := func(ask func() string) AsyncAssertion {
		GinkgoHelper()
		return Eventually(ask, patience, 50*time.Millisecond)
	}
	pid := func() string {
		files, err := filepath.Glob(filepath.Join(web.StateDir, "run", "*", "envoy.pid"))
		Expect(err).NotTo(HaveOccurred())
		Expect(files).To(HaveLen(1))
		text, err := os.ReadFile(files[0])
		Expect(err).NotTo(HaveOccurred())
		return string(text)
	}

	BeforeAll(func() {
		orders, authority = startCounting(), newRoot()
		ports := framework.FreePorts(2)
		port, second = ports[0], ports[1]
		own = scraper{from: web1, url: fmt.Sprintf("http://%s:%d/metrics", web1, port)}
		w = newWorld("")
		metrics(applications())
		web = w.describe("web-1", tags{service: "web"})
		web.doc["networking"].(map[string]any)["address"] = web1
		w.join(web)
		w.ready(web)
	})

	by := func(service string) scraper {
		return scraper{from: elsewhere, with: authority.leaf("spiffe://" + shop + "/" + service), url: fmt.Sprintf("https://%s:%d/metrics", web1, port)}
	}

	It("the machine of the proxy reads what Envoy and the application count, in one page", func() {
		eventually(own.page).Should(And(ContainSubstring("\nenvoy_server_live 1\n"), ContainSubstring("# HELP app_orders_total Orders.\n# TYPE app_orders_total counter\napp_orders_total{kind=\"a b\"} 7\n"),
			ContainSubstring("meshgate_scrape_envoy_up 1\n"), ContainSubstring(`meshgate_scrape_up{application="orders"} 1`)))
	})

	It("nothing is shown at another path, and nothing of a query counts", func() {
		other := own
		other.url = strings.Replace(own.url, "/metrics", "/stats", 1)
		Expect(other.status()).To(Equal(404))
		other.url = own.url + "?filter=nothing&usedonly"
		Expect(other.page()).To(ContainSubstring("envoy_server_live"))
	})

	It("others need a certificate of the mesh", func() {
		Expect(by("prometheus").page()).To(ContainSubstring("app_orders_total"))
		without := by("prometheus")
		without.with = nil
		Expect(without.status()).To(Equal(0))
		without.url = strings.Replace(without.url, "https", "http", 1)
		Expect(without.status()).To(Equal(0))
		stranger := by("prometheus")
		stranger.with = newRoot().leaf("spiffe://" + shop + "/prometheus")
		Expect(stranger.status()).To(Equal(0))
	})

	It("permissions are those for the service of the metrics", func() {
		w.Delete(shop, "traffic-permissions", allowAll)
		Eventually(by("prometheus").status, patience, 20*time.Millisecond).Should(Equal(403))
		w.Put("traffic-permissions", policy("TrafficPermission", "scrape", tags{service: "prometheus"}, tags{service: "dataplane-metrics"}, nil))
		w.Converged()
		Expect(by("prometheus").status()).To(Equal(200))
		Expect(by("other").status()).To(Equal(403))
		Expect(own.status()).To(Equal(200), "the machine itself needs none")
		r := w.Mesh(http.MethodGet, "/meshes/"+shop+"/dataplanes/web-1/policies", nil)
		Expect(r.Body).To(MatchRegexp(`"type": ?"inbound",\s*"name": ?"%s:%d:%d",\s*"matchedPolicies"`, web1, port, port))
	})

	It("a filter takes effect without another Envoy", func() {
		before := pid()
		conf := applications()
		conf["envoy"] = map[string]any{"filterRegex": "^server\\.", "usedOnly": true}
		since := time.Now()
		metrics(conf)
		measured("filter in effect after", since, func() bool {
			page := own.page()
			return strings.Contains(page, "envoy_server_live") && !strings.Contains(page, "envoy_cluster_")
		})
		page := own.page()
		Expect(page).NotTo(ContainSubstring("envoy_server_hot_restart_epoch"), "what was never counted")
		Expect(page).To(ContainSubstring("app_orders_total"), "the filter is for Envoy")
		metrics(applications())
		eventually(own.page).Should(ContainSubstring("envoy_cluster_"))
		Expect(pid()).To(Equal(before))
	})

	It("another path, no mutual TLS, and both as they were", func() {
		plain := by("prometheus")
		plain.with, plain.url = nil, fmt.Sprintf("http://%s:%d/own/stats", web1, port)
		conf := applications()
		conf["skipMTLS"], conf["path"] = true, "/own/stats"
		metrics(conf)
		eventually(plain.page).Should(ContainSubstring("app_orders_total"))
		metrics(applications())
		Eventually(plain.status, patience, 20*time.Millisecond).Should(Equal(0))
		eventually(by("prometheus").page).Should(ContainSubstring("app_orders_total"))
	})

	It("an application that is away, hangs or answers garbage costs nothing of Envoy, nor of another", func() {
		hold, worse := make(chan struct{}), startCounting()
		DeferCleanup(func() { close(hold) })
		away := framework.FreePorts(1)[0]
		metrics(applications(map[string]any{"name": "worse", "port": worse.port}, map[string]any{"name": "away", "port": away}, map[string]any{"name": "off", "port": away, "enabled": false}))
		eventually(own.page).Should(And(ContainSubstring(`up{application="away"} 0`), ContainSubstring(`up{application="worse"} 1`), Not(ContainSubstring(`"off"`)),
			ContainSubstring(`left_out_lines{application="worse",reason="duplicate"} 1`)))
		for _, is := range []struct {
			what   string
			answer http.HandlerFunc
			want   string
		}{ // the last is looked at below, too
			{"hangs", func(_ http.ResponseWriter, r *http.Request) { framework.Hold(r, make(chan struct{}, 1), hold) }, `up{application="worse"} 0`},
			{"redirects", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, `up{application="worse"} 0`},
			{"lies", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/plain")
				_, _ = io.WriteString(w, "envoy_server_live 0\nmeshgate_scrape_up{application=\"orders\"} 0\nup 0\n\x00\n<html>\ngood 1\n# TYPE app_orders_total gauge\napp_orders_total 1\n")
			}, `left_out_lines{application="worse",reason="reserved"} 3`},
		} {
			By(is.what)
			worse.does(is.answer)
			eventually(own.page).Should(And(ContainSubstring(is.want), ContainSubstring("envoy_server_live 1"), ContainSubstring(`app_orders_total{kind="a b"} 7`), ContainSubstring(`up{application="orders"} 1`)))
		}
		Expect(own.page()).To(And(ContainSubstring("\ngood 1\n"), ContainSubstring(`reason="malformed"} 2`), ContainSubstring(`reason="conflict"} 1`), Not(ContainSubstring("app_orders_total 1"))))
		metrics(applications())
		eventually(own.page).ShouldNot(ContainSubstring(`application="away"`))
	})

	It("where the machine answers operators, nobody is asked", func() {
		r := w.Mesh(http.MethodPut, "/meshes/"+shop, framework.Document{"type": "Mesh", "name": shop, "metrics": map[string]any{"backends": []any{map[string]any{
			"name": "p", "type": "prometheus", "conf": map[string]any{"aggregate": []any{map[string]any{"name": "cloud", "port": 80, "address": "169.254.169.254"}}},
		}}}})
		Expect(r.Status).To(Equal(400), r.Body)
		metrics(applications(map[string]any{"name": "far", "port": 80, "address": "192.0.2.1"}))
		eventually(own.page).Should(ContainSubstring(`up{application="far"} 0`))
		Eventually(web.Output, patience, 20*time.Millisecond).Should(ContainSubstring("--workload-address"))
		metrics(applications())
	})

	It("a proxy with a port of its own, and one whose port something else has", func() {
		mine := own
		mine.url = fmt.Sprintf("http://%s:%d/metrics", web1, second)
		as := func(port int) {
			web.doc["metrics"] = map[string]any{"type": "prometheus", "conf": map[string]any{"port": port}}
			w.Put("dataplanes", web.doc)
		}
		since := time.Now()
		as(second)
		measured("another port after", since, func() bool { return mine.status() == 200 })
		Eventually(own.status, patience, 20*time.Millisecond).Should(Equal(0))
		as(web.port)
		errors := func() string { return strings.Join(w.overview("web-1").Errors, "\n") }
		eventually(errors).Should(ContainSubstring(fmt.Sprintf("metrics cannot be scraped: another inbound listens on %s:%d", web1, web.port)))
		Eventually(mine.status, patience, 20*time.Millisecond).Should(Equal(0))
		delete(web.doc, "metrics")
		w.Put("dataplanes", web.doc)
		eventually(own.page).Should(ContainSubstring("app_orders_total"))
		Expect(errors()).To(BeEmpty())
	})

	It("a proxy whose port another process has is ready all the same, and its refusal is told", func() {
		other := w.describe("other-1", tags{service: "other"})
		other.doc["networking"].(map[string]any)["address"] = web1
		w.join(other)
		other.WaitReady()
		eventually(func() string { return fmt.Sprint(w.overview("other-1")) }).Should(ContainSubstring("cannot bind"))
		eventually(other.Output).Should(ContainSubstring("proxy is ready"))
		Expect(own.page()).To(ContainSubstring("app_orders_total"))
	})
})
