package mesh_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("meshgate dataplane", Ordered, func() {
	var (
		w   *world
		web *member
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		web = w.start("web-1", tags{service: "web"}, "backend")
		w.ready(web)
	})

	exists := func(name string) bool {
		return w.Mesh(http.MethodGet, "/meshes/"+shop+"/dataplanes/"+name, nil).Status == http.StatusOK
	}

	It("registers the dataplane of its file; SIGTERM lets a request finish and deregisters", func() {
		m := w.registering("backend-1")
		m.WaitReady()
		Expect(exists("backend-1")).To(BeTrue())
		answers(web.to("backend"), 200)

		answered := make(chan int, 1)
		go func() { answered <- called(web.to("backend") + "/hold") }()
		Eventually(m.work.Held, patience).Should(Receive())
		m.Signal(term)
		Eventually(m.Output, patience, 10*time.Millisecond).Should(ContainSubstring("envoy is draining"))
		Consistently(answered, "300ms").ShouldNot(Receive(), "the request waits for its workload")
		close(m.work.Release)
		Eventually(answered, patience).Should(Receive(Equal(200)))
		Expect(m.Exit(patience)).To(BeZero())
		Expect(exists("backend-1")).To(BeFalse())
	})

	It("one of two instances stops under load and no request fails", func() {
		stays, goes := w.registering("backend-2"), w.registering("backend-3")
		w.ready(web, stays, goes)
		load := framework.StartTraffic(web.to("backend"), http.Header{}, 1)
		fresh := framework.StartConnections(web.to("backend"), http.Header{}, 1, 5)
		load.Served(100)
		goes.Signal(term)
		Expect(goes.Exit(patience)).To(BeZero())
		load.Served(100)
		none(load)
		none(fresh)
		Expect(exists("backend-3")).To(BeFalse())
		stays.Stop()
		Eventually(func() bool { return exists("backend-2") }, patience).Should(BeFalse())
	})

	It("says at /ready whether it can be sent requests, also while it leaves", func() {
		status := framework.FreePorts(1)[0]
		m := w.describe("ready-1", tags{service: "ready"})
		w.Put("dataplanes", m.doc)
		m.Sidecar = framework.NewSidecar(w.cp, shop, "ready-1", "", "--status-listen", "127.0.0.1", "--status-port", fmt.Sprint(status), "--drain-delay", "1h").Start()
		ready := func() error { return framework.Ready(status) }
		Eventually(ready, patience, 20*time.Millisecond).Should(Succeed())
		Expect(syscall.Kill(framework.RunningEnvoy(m.StateDir), syscall.SIGKILL)).To(Succeed())
		Eventually(m.Output, patience, 10*time.Millisecond).Should(ContainSubstring("envoy ended unexpectedly"))
		Eventually(ready, patience, 20*time.Millisecond).Should(Succeed(), "it is started again")
		m.Signal(term)
		Eventually(ready, patience, 10*time.Millisecond).Should(MatchError(ContainSubstring("503")))
		answers(fmt.Sprintf("http://127.0.0.1:%d/live", status), 200)
		m.Signal(term)
		Expect(m.Exit(patience)).NotTo(BeZero())
		Expect(framework.Envoys(m.StateDir)).To(BeEmpty())
	})

	It("a token of another proxy is refused with a message that says so", func() {
		m := w.describe("thief-1", tags{service: "backend"})
		w.Put("dataplanes", m.doc)
		m.Sidecar = framework.NewSidecar(w.cp, shop, "thief-1", "")
		m.WriteToken(w.DataplaneToken(shop, "web-1", "1h"))
		m.Start()
		Expect(m.Exit(patience)).NotTo(BeZero())
		Expect(m.Output()).To(ContainSubstring("proxy name thief-1 is different than in token: web-1"))
		Expect(m.Output()).NotTo(ContainSubstring(m.Token()))
	})

	It("the admin interface is on a port if one is asked for", func() {
		port := framework.FreePorts(1)[0]
		m := w.describe("admin-1", tags{service: "backend"})
		w.Put("dataplanes", m.doc)
		m.Sidecar = framework.NewSidecar(w.cp, shop, "admin-1", "", "--admin-port", fmt.Sprint(port)).Start()
		answers(fmt.Sprintf("http://127.0.0.1:%d/ready", port), 200)
	})
})

// expiry is when a token ends.
func expiry(token string) time.Time {
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	var claims struct {
		End int64 `json:"exp"`
	}
	ExpectWithOffset(1, json.Unmarshal(payload, &claims)).To(Succeed())
	return time.Unix(claims.End, 0)
}

var _ = Describe("dataplane tokens", Ordered, func() {
	var (
		w                   *world
		web, other, backend *member
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		backend = w.start("backend-1", tags{service: "backend"})
		web = w.describe("web-1", tags{service: "web"}, "backend")
		w.Put("dataplanes", web.doc)
		web.Sidecar = framework.NewSidecar(w.cp, shop, "web-1", "")
		other = w.start("web-2", tags{service: "web"}, "backend")
		w.ready(other, backend)
		answers(other.to("backend"), 200)
	})

	// renewed proves that a proxy whose stream was ended serves on, and is back with
	// a new token without a restart.
	renewed := func(m *member) {
		online := func() bool { return w.overview(m.Name).online() }
		Consistently(online, "1s", "100ms").Should(BeFalse(), "the old token opens no stream")
		Expect(called(m.to("backend"))).To(Equal(200), "what it has stays in force")
		since := time.Now()
		pid := framework.RunningEnvoy(m.StateDir)
		m.WriteToken(w.DataplaneToken(shop, m.Name, "1h"))
		measured("the renewed token file is used after", since, online)
		Expect(framework.RunningEnvoy(m.StateDir)).To(Equal(pid))
		w.route(map[string]any{"destination": tags{service: "backend"}})
		w.Converged()
	}

	It("one that expires ends the stream; a renewed file is picked up", func() {
		online := func() bool { return w.overview("web-1").online() }
		var end time.Time
		for life := 6 * time.Second; ; life *= 2 { // a slow machine needs a longer one to start
			Expect(life).To(BeNumerically("<", 2*time.Minute), "the proxy does not come up")
			web.WriteToken(w.DataplaneToken(shop, "web-1", life.String()))
			end = expiry(web.Token())
			if life == 6*time.Second {
				web.Start()
			}
			seen := false
			Eventually(func() bool { seen = online(); return seen || time.Now().After(end) }, patience, 10*time.Millisecond).Should(BeTrue())
			if seen {
				break
			}
		}
		Eventually(online, patience, 10*time.Millisecond).Should(BeFalse(), "it ends with its token")
		answers(web.to("backend"), 200)
		subscriptions := w.overview("web-1").Insight.Subscriptions
		last := subscriptions[len(subscriptions)-1].Disconnect
		Expect(last).NotTo(BeNil())
		Expect(*last).To(BeTemporally(">=", end), "not before its time")
		AddReportEntry("after the end of its token the stream ended after", last.Sub(end).String())
		renewed(web)
	})

	It("one that is revoked ends the stream at once", func() {
		online := func() bool { return w.overview("web-2").online() }
		Expect(online()).To(BeTrue())
		payload, err := base64.RawURLEncoding.DecodeString(strings.Split(other.Token(), ".")[1])
		Expect(err).NotTo(HaveOccurred())
		var claims struct {
			ID string `json:"jti"`
		}
		Expect(json.Unmarshal(payload, &claims)).To(Succeed())
		since := time.Now()
		w.Put("secrets", framework.Document{
			"type": "Secret", "mesh": shop, "name": "dataplane-token-revocations-" + shop,
			"data": base64.StdEncoding.EncodeToString([]byte("some-other-id," + claims.ID + "\n")),
		})
		measured("the stream of a revoked token ended after", since, func() bool { return !online() })
		Expect(w.overview("backend-1").online()).To(BeTrue(), "others stay")
		renewed(other)
	})
})
