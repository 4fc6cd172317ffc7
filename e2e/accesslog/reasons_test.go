package accesslog_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// probe is a request with what the log must say of it.
type probe struct {
	method, path string
	headers      []string
	status       int
	decision     string
	reason       string // "" is null
	// service is the entity that it is about; its route has the same name and
	// "-route". consumer and application are who asks.
	service, consumer, application string
}

// furnish makes what the probes ask for.
func (w *world) furnish() {
	for _, name := range []string{"alice", "bob"} {
		w.consumer(name)
	}
	w.service("open")
	w.service("safe", oauth2(nil))
	w.service("other", oauth2(nil))
	w.service("brief", oauth2(map[string]any{"token_expiration": 1}))
	w.service("global", oauth2(map[string]any{"global_credentials": true}))
	w.service("keys", plugin("key-auth", map[string]any{"key_names": []string{"apikey"}}))
	w.service("both", oauth2(map[string]any{"profile": "oauth2.1"}), plugin("key-auth", map[string]any{"key_names": []string{"apikey"}}))
	w.service("closed", plugin("request-termination", map[string]any{"status_code": 403, "message": "no"}))
	w.service("lost", oauth2(map[string]any{"anonymous": "nobody"}))
	w.service("down")
	w.Must(200, http.MethodPatch, "/services/down", map[string]any{"port": 1})
	w.Must(201, http.MethodPost, "/routes", map[string]any{"name": "nowhere-route", "paths": []string{"/nowhere"}})
	w.Must(201, http.MethodPost, "/services/open/routes", map[string]any{"name": "tls-route", "paths": []string{"/tls"}, "protocols": []string{"https"}})
	w.Must(201, http.MethodPost, "/services/open/routes", map[string]any{"name": "grpc-route", "paths": []string{"/grpc"}, "protocols": []string{"grpc"}})
	for _, key := range []string{"alices-first-api-key", "alices-second-api-key"} {
		w.Must(201, http.MethodPost, "/consumers/alice/key-auth", map[string]any{"key": key})
		w.secrets = append(w.secrets, key)
	}
	w.Must(201, http.MethodPost, "/consumers/bob/key-auth", map[string]any{"key": "bobs-brief-api-key", "ttl": 1})
	w.secrets = append(w.secrets, "bobs-brief-api-key")
	w.Converged()
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

var _ = Describe("the access log", func() {
	It("says why each request was refused, of whom, and under the id that its client has", func() {
		w := newWorld("--envoy-log-level", "debug", "--log-level", "debug")
		w.furnish()
		good, elsewhere, gone, brief, global := w.mint("safe", "alice"), w.mint("other", "alice"), w.mint("safe", "bob"), w.mint("brief", "alice"), w.mint("global", "alice")
		both := w.mint("both", "bob", "apikey", "alices-first-api-key")
		const random = "a-token-that-nobody-has-ever-issued"
		w.secrets = append(w.secrets, random)

		Expect(w.call("GET", "/safe/before", bearer(gone)...).Status).To(Equal(200))
		w.Must(204, http.MethodDelete, "/oauth2_tokens/"+gone, nil)
		Expect(w.call("GET", "/keys/before", "apikey", "alices-second-api-key").Status).To(Equal(200))
		keys := w.Must(200, http.MethodGet, "/consumers/alice/key-auth", nil).JSON()["data"].([]any)
		for _, k := range keys {
			if k.(map[string]any)["key"] == "alices-second-api-key" {
				w.Must(204, http.MethodDelete, "/consumers/alice/key-auth/"+k.(map[string]any)["id"].(string), nil)
			}
		}
		Eventually(func() int { return w.call("GET", "/brief/wait", bearer(brief)...).Status }, patience, 50*time.Millisecond).Should(Equal(401))
		Eventually(func() int { return w.call("GET", "/keys/wait", "apikey", "bobs-brief-api-key").Status }, patience, 50*time.Millisecond).Should(Equal(401))

		probes := []probe{
			{"GET", "/open/a?access_token=" + random, nil, 200, "none", "", "open", "", ""},
			{"GET", "/safe/allowed", bearer(good), 200, "allowed", "", "safe", "alice", "alice-app"},
			{"GET", "/safe/allowed-again?access_token=" + good, nil, 200, "allowed", "", "safe", "alice", "alice-app"},
			{"GET", "/down/a", nil, 503, "none", "", "down", "", ""},
			{"GET", "/safe/missing", nil, 401, "refused", "token_missing", "safe", "", ""},
			{"GET", "/safe/unknown", bearer(random), 401, "refused", "token_unknown", "safe", "", ""},
			{"GET", "/safe/revoked", bearer(gone), 401, "refused", "token_revoked", "safe", "", ""},
			{"GET", "/brief/expired", bearer(brief), 401, "refused", "token_expired", "brief", "alice", "alice-app"},
			{"GET", "/safe/elsewhere", bearer(elsewhere), 401, "refused", "wrong_service", "safe", "alice", "alice-app"},
			{"GET", "/safe/unbound", bearer(global), 401, "refused", "token_unbound", "safe", "alice", "alice-app"},
			{"GET", "/keys/missing", nil, 403, "refused", "key_missing", "keys", "", ""},
			{"GET", "/keys/unknown?apikey=" + random, nil, 401, "refused", "key_unknown", "keys", "", ""},
			{"GET", "/keys/revoked", []string{"apikey", "alices-second-api-key"}, 401, "refused", "key_revoked", "keys", "", ""},
			{"GET", "/keys/twice", []string{"apikey", random, "apikey", random}, 401, "refused", "key_duplicate", "keys", "", ""},
			{"GET", "/both/others", append(bearer(both), "apikey", "alices-first-api-key"), 403, "refused", "other_consumer", "both", "bob", "bob-app"},
			{"GET", "/closed/a", nil, 403, "refused", "terminated", "closed", "", ""},
			{"GET", "/lost/a", nil, 500, "refused", "anonymous_missing", "lost", "", ""},
			{"GET", "/nowhere/a", nil, 503, "refused", "no_service", "", "", ""},
			{"GET", "/tls/a", nil, 426, "refused", "https_required", "open", "", ""},
			{"GET", "/grpc/a", nil, 415, "refused", "protocol", "open", "", ""},
			{"GET", "/unheard-of", nil, 404, "refused", "no_route", "", "", ""},
			{"TRACE", "/open/trace", nil, 405, "refused", "method_refused", "", "", ""},
			{"GET", "/open/..%2f/a", nil, 400, "refused", "path_refused", "", "", ""},
		}
		for i, p := range probes {
			// Clients may not say who they are, in the log either.
			p.headers = append(p.headers, "User-Agent", fmt.Sprint("probe-", i), "X-Consumer-Username", "mallory", "X-Credential-Identifier", "mallory",
				"X-Forwarded-Host", "mallory", "X-Forwarded-Path", "/mallory")
			r := w.call(p.method, p.path, p.headers...)
			Expect(r.Status).To(Equal(p.status), "%s %s: %s", p.method, p.path, r.Body)
			l := w.about("user_agent", fmt.Sprint("probe-", i))
			saw := []any{l["decision"], l.text("reason"), l.text("service"), l.text("consumer"), l.text("application"), l["status"], l["method"]}
			Expect(saw).To(Equal([]any{p.decision, p.reason, p.service, p.consumer, p.application, float64(p.status), p.method}), "%s %s: %v", p.method, p.path, l)
			path, _, _ := strings.Cut(p.path, "?")
			Expect(l["path"]).To(Equal(path))
			Expect(l.text("host")).To(HavePrefix("127.0.0.1:"), "%s %s", p.method, p.path)
			if p.service != "" {
				Expect(l.text("route")).To(HaveSuffix("-route"))
				Expect(l.text("route_id")).To(HaveLen(36))
				Expect(l.text("service_id")).To(HaveLen(36))
			}
			Expect(l.text("request_id")).To(HaveLen(36))
			if p.status >= 400 {
				Expect(r.Header.Get("X-Request-Id")).To(Equal(l["request_id"]), "%s", p.path)
				Expect(r.Header).NotTo(ContainElement(ContainElement(ContainSubstring(p.reason + "_"))))
			}
			for name, values := range r.Header {
				if p.reason != "" {
					Expect(strings.Join(values, " ")).NotTo(ContainSubstring(p.reason), "the answer tells why in %s", name)
				}
			}
		}
		By("Envoy itself refuses a protocol, before the filter is shown the request")
		w.call("GET", "/open/upgrade?q", "Connection", "Upgrade", "Upgrade", "unheard-of", "User-Agent", "probe-upgrade", "X-Forwarded-Host", "mallory", "X-Forwarded-Path", "/mallory")
		l := w.about("user_agent", "probe-upgrade")
		Expect([]any{l["status"], l["decision"], l["path"]}).To(Equal([]any{float64(403), "refused", "/open/upgrade"}), "%v", l)
		Expect(l.text("host")).To(HavePrefix("127.0.0.1:"))
		issued := 0
		for _, l := range w.lines() {
			if l["decision"] == "issued" && l["route"] == "safe-route" && l["service"] == "safe" && l["status"] == float64(200) && l["path"] == "/safe/oauth2/token" {
				issued++
			}
		}
		Expect(issued).To(Equal(2), "tokens of safe")
		w.spill()
		statistics(w)
	})

	It("tells what was never decided from what was allowed", func() {
		w := newWorld()
		w.consumer("alice")
		w.service("safe", oauth2(nil))
		w.Converged()
		token := w.mint("safe", "alice")
		raw := func(request string) string {
			conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", w.c.HTTP))
			Expect(err).NotTo(HaveOccurred())
			defer conn.Close()
			Expect(conn.SetDeadline(time.Now().Add(patience))).To(Succeed())
			_, err = conn.Write([]byte(request))
			Expect(err).NotTo(HaveOccurred())
			status, err := bufio.NewReader(conn).ReadString('\n')
			Expect(err).NotTo(HaveOccurred())
			return status
		}
		// An upgrade that no listener offers is answered by Envoy before any filter.
		status := raw("GET /safe/a HTTP/1.1\r\nHost: x\r\nUser-Agent: upgrader\r\nX-Consumer-Username: mallory\r\nConnection: upgrade\r\nUpgrade: foo\r\nAuthorization: Bearer " + token + "\r\n\r\n")
		Expect(status).To(ContainSubstring(" 403 "))
		l := w.about("user_agent", "upgrader")
		Expect(l["decision"]).To(Equal("refused"), "%v", l)
		Expect(l["reason"]).To(Equal("undecided"))
		Expect(l["consumer"]).To(BeNil())
	})

	It("knows that the authority was away, and what gateways count", func() {
		c := framework.NewControlPlane("run").Start()
		f := framework.NewFixture(c)
		g := framework.StartGateway(c, "g")
		f.Converged()
		token := f.MustMint(g.HTTPS)
		Expect(f.Status(g.HTTP, token)).To(Equal(200))
		c.Kill()
		var id string
		Eventually(func() int {
			r, err := f.Call(g.HTTP, "a-token-that-is-not-in-memory")
			Expect(err).NotTo(HaveOccurred())
			id = r.Header.Get("X-Request-Id")
			return r.Status
		}, patience, 100*time.Millisecond).Should(Equal(503))
		Eventually(g.Output, patience, 50*time.Millisecond).Should(MatchRegexp(`"reason":"authority_away".*"request_id":"%s"`, id))
		Expect(g.Output()).NotTo(ContainSubstring("a-token-that-is-not-in-memory"))
	})
})
