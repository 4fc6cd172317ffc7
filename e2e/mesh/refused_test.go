package mesh_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// refusedLine is a line of the access log of a sidecar.
type refusedLine struct {
	RequestID string `json:"request_id"`
	Decision, Reason, Mesh, Direction, Service,
	Caller, Path, Details, Consumer, Application string
	Status int
}

// logged is a member whose sidecar logs to a file.
type logged struct {
	*member
	file string
}

// startLogged starts a member of which the lines can be read.
func (w *world) startLogged(m *member) *logged {
	name := m.doc["name"].(string)
	l := &logged{m, filepath.Join(GinkgoT().TempDir(), name+".log")}
	w.Put("dataplanes", m.doc)
	m.Sidecar = framework.NewSidecar(w.cp, shop, name, "", "--access-log-path", l.file).Start()
	return l
}

// refusals are the lines of a sidecar's access log.
func (m *logged) refusals() (out []refusedLine) {
	raw, err := os.ReadFile(m.file)
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	ExpectWithOffset(1, string(raw)).NotTo(ContainSubstring("sesame"), "no query is in the log")
	for text := range strings.Lines(string(raw)) {
		if !strings.HasSuffix(text, "\n") {
			return out // it is being written
		}
		var l refusedLine
		ExpectWithOffset(1, json.Unmarshal([]byte(text), &l)).To(Succeed(), text)
		out = append(out, l)
	}
	return out
}

// logs is the last of n refusals, and there are no more.
func (m *logged) logs(n int) refusedLine {
	EventuallyWithOffset(1, m.refusals, patience, 20*time.Millisecond).Should(HaveLen(n))
	return m.refusals()[n-1]
}

var _ = Describe("what a sidecar refuses", Ordered, core, func() {
	var (
		w                    *world
		f                    *framework.Fixture
		web, backend, ledger *logged
		atWeb, atBackend     int
	)

	BeforeAll(func() {
		cp := framework.NewControlPlane("standalone")
		if envoy := otherEnvoy(); envoy != "" {
			cp.Args = append(cp.Args, "--envoy-path", envoy)
		}
		w = adopt(cp.Start(), "STRICT")
		w.Delete(shop, "retries", "retry-all-"+shop) // each try has a line, and Envoys send those of later ones later
		f = framework.NewFixture(cp)
		backend = w.startLogged(w.describe("backend-1", tags{service: "backend"}))
		w.Put("circuit-breakers", policy("CircuitBreaker", "eager", tags{service: "*"}, tags{service: "ledger"}, map[string]any{
			"detectors": map[string]any{"totalErrors": map[string]any{"consecutive": 1}}, "maxEjectionPercent": 100,
		}))
		ledger = w.startLogged(w.around("ledger-1", nil, framework.StartEcho("ledger-1"), tags{service: "ledger", protocol: "tcp"}))
		caller := w.describe("web-1", tags{service: "web"}, "backend", "ledger", "nobody", "away")
		for _, out := range caller.doc["networking"].(map[string]any)["outbound"].([]any) {
			if to := out.(map[string]any)["tags"].(tags); to[service] == "nobody" {
				to[protocol] = "http" // there is no endpoint that says so
			}
		}
		web = w.startLogged(caller)
		w.ready(web.member, backend.member, ledger.member)
		answers(web.to("backend"), 200)
	})

	// asks sends a request with a secret in its query.
	asks := func(url string, headers http.Header) *framework.Response {
		r, err := framework.Do(http.DefaultClient, http.MethodGet, url+"/orders/7?open=sesame", headers, "")
		ExpectWithOffset(1, err).NotTo(HaveOccurred())
		return r
	}

	It("a permission that was taken away: one line at the destination names the caller", func() {
		for range 20 {
			Expect(asks(web.to("backend"), nil).Status).To(Equal(200))
		}
		atWeb, atBackend = len(web.refusals()), len(backend.refusals()) // nobody answered before there were routes
		w.Delete(shop, "traffic-permissions", allowAll)
		w.Converged()
		r := asks(web.to("backend"), nil)
		Expect(r.Status).To(Equal(403), r.Body)
		atBackend++
		Expect(r.Header.Get("X-Request-Id")).NotTo(BeEmpty())
		l := backend.logs(atBackend)
		Expect(l.Caller).To(HaveSuffix("spiffe://shop/web"))
		l.Caller, l.Details = "", strings.TrimSuffix(l.Details, "[none]")
		Expect(l).To(Equal(refusedLine{
			RequestID: r.Header.Get("X-Request-Id"), Decision: "refused", Reason: "no_permission", Mesh: shop, Direction: "inbound", Service: "backend",
			Path: "/orders/7", Details: "rbac_access_denied_matched_policy", Status: 403,
		}))
	})

	It("a connection that was denied in its handshake: one line at the destination names the caller", func() {
		conn, lines := dialEcho(web.port2("ledger"))
		Expect(conn.say(lines, "one")).To(BeEmpty())
		l := ledger.logs(1)
		Expect(l.Details).To(MatchRegexp(`SAN matcher, certificate SANs are \[.*, spiffe://shop/web\]`))
		l.Details = ""
		Expect(l).To(Equal(refusedLine{Decision: "refused", Reason: "no_permission", Mesh: shop, Direction: "inbound", Service: "ledger"}))
		for _, counter := range []string{"upstream_cx_connect_fail", "outlier_detection.ejections_active"} {
			Expect(web.Stats()).To(HaveKeyWithValue("cluster.ledger."+counter, 0), "the caller's sidecar takes it for no fault of the destination's")
		}
		w.Put("traffic-permissions", policy("TrafficPermission", allowAll, tags{service: "*"}, tags{service: "*"}, nil))
		w.Converged()
		Eventually(func() string {
			conn, lines = dialEcho(web.port2("ledger"))
			return conn.say(lines, "two")
		}, patience, 10*time.Millisecond).Should(Equal("ledger-1 two"))
		Expect(conn.Close()).To(Succeed())
	})

	It("nobody at the destination: a line at the caller", func() {
		r := asks(web.to("nobody"), nil)
		Expect(r.Status).To(Equal(503), r.Body)
		atWeb++
		Expect(web.logs(atWeb)).To(Equal(refusedLine{
			RequestID: r.Header.Get("X-Request-Id"), Decision: "refused", Reason: "no_endpoint", Mesh: shop, Direction: "outbound", Service: "nobody",
			Path: "/orders/7", Details: "no_healthy_upstream", Status: 503,
		}))
		Expect(r.Header.Get("X-Request-Id")).NotTo(BeEmpty())
	})

	It("a workload that does not listen", func() {
		gone := w.describe("away-1", tags{service: "away"})
		gone.work.Close()
		away := w.startLogged(gone)
		w.ready(gone)
		r := asks(web.to("away"), nil)
		Expect(r.Status).To(Equal(503), r.Body)
		l := away.logs(1)
		Expect(l.Reason).To(Equal("connect_failed"), l.Details)
		Expect(l.RequestID).To(Equal(r.Header.Get("X-Request-Id")))
	})

	It("a fault that was injected", func() {
		w.Put("fault-injections", policy("FaultInjection", "teapot", tags{service: "*"}, tags{service: "backend", protocol: "http"}, map[string]any{
			"abort": map[string]any{"httpStatus": 418, "percentage": 100},
		}))
		w.Converged()
		answers(web.to("backend"), 418)
		l := backend.logs(atBackend + 1)
		atBackend++
		Expect(l.Reason).To(Equal("fault_injected"), l.Details)
		w.Delete(shop, "fault-injections", "teapot")
		w.Converged()
		answers(web.to("backend"), 200)
		atBackend = len(backend.refusals())
	})

	It("a token that is missing or unknown: its reason, and never what a caller says of itself", func() {
		w.Put("meshtokenauths", framework.Document{
			"type": "MeshTokenAuth", "mesh": shop, "name": "tokens",
			"spec": map[string]any{
				"targetRef": map[string]any{"kind": "MeshService", "name": "backend"},
				"from": []any{map[string]any{
					"targetRef": map[string]any{"kind": "Mesh"},
					"default":   map[string]any{"plugin": map[string]any{"controlPlane": "default", "id": f.Plugin}},
				}},
			},
		})
		answers(web.to("backend"), 401)
		w.Converged()
		token := f.MustMint(w.cp.HTTPS)
		Expect(asks(web.to("backend"), http.Header{"Authorization": {"Bearer " + token}}).Status).To(Equal(200))
		r := asks(web.to("backend"), http.Header{"X-Consumer-Username": {"mallory"}, "X-Request-Id": {"mine"}})
		Expect(r.Status).To(Equal(401), r.Body)
		said := func(id string) (found []refusedLine) {
			for _, l := range backend.refusals() {
				if l.RequestID == id {
					found = append(found, l)
				}
			}
			return found
		}
		id := r.Header.Get("X-Request-Id")
		Expect(id).NotTo(BeEmpty())
		Eventually(func() []refusedLine { return said(id) }, patience, 20*time.Millisecond).Should(HaveLen(1))
		l := said(id)[0]
		Expect(l.Caller).To(HaveSuffix("spiffe://shop/web"))
		l.Caller = ""
		Expect(l).To(Equal(refusedLine{
			RequestID: id, Decision: "refused", Reason: "token_missing", Mesh: shop, Direction: "inbound", Service: "backend",
			Path: "/orders/7", Details: "meshgate_token_missing", Status: 401,
		}))
		f.Must(204, http.MethodDelete, "/oauth2_tokens/"+token, nil)
		r = asks(web.to("backend"), http.Header{"Authorization": {"Bearer " + token}})
		Expect(r.Status).To(Equal(401), r.Body)
		id = r.Header.Get("X-Request-Id")
		Eventually(func() []refusedLine { return said(id) }, patience, 20*time.Millisecond).Should(HaveLen(1))
		Expect(said(id)[0].Reason).To(Equal("token_revoked"))
		for _, l := range backend.refusals()[atBackend:] {
			Expect(l.Status).To(Equal(401), "nothing that was answered by the workload")
		}
		w.Delete(shop, "traffic-permissions", allowAll)
		w.Converged()
		r = asks(web.to("backend"), nil)
		Expect(r.Status).To(Equal(403), r.Body)
		id = r.Header.Get("X-Request-Id")
		Eventually(func() []refusedLine { return said(id) }, patience, 20*time.Millisecond).Should(HaveLen(1))
		Expect(said(id)[0].Reason).To(Equal("no_permission"), "who may not call is told before a token is looked at")
	})

	It("the callers of what was refused further on wrote nothing", func() {
		for _, l := range web.refusals()[atWeb:] {
			Expect(l.Direction).To(Equal("outbound"))
			Expect(l.Status).NotTo(BeElementOf(200, 401, 403, 418))
		}
	})
})
