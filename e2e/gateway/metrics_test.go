package gateway_test

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"

	"github.com/meshgate/meshgate/controlplane/telemetry/telemetrytest"
	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("metrics", func() {
	const (
		patience = 30 * time.Second
		asked    = "meshgate_introspection_duration_seconds"
		late     = "envoy_meshgate_redis_errors_total"
	)
	var (
		c      *framework.ControlPlane
		g      *framework.Gateway
		f      *framework.Fixture
		status int
	)

	BeforeEach(func() {
		c = framework.NewControlPlane("run").Start()
		status = framework.FreePorts(1)[0]
		g = framework.StartGateway(c, "g", "--status-listen", "127.0.0.1", "--status-port", strconv.Itoa(status))
		f = framework.NewFixture(c)
		settled(c)
	})

	token := func(form url.Values) int {
		GinkgoHelper()
		r, err := framework.Do(f.HTTP, http.MethodPost, fmt.Sprintf("https://localhost:%d%s/oauth2/token", g.HTTPS, framework.RoutePath),
			http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, form.Encode())
		Expect(err).NotTo(HaveOccurred())
		return r.Status
	}

	It("are what was sent, at the control plane and at the node", func() {
		// The first use of a token is answered by Redis, unless it takes too long to connect to it. After that it does not.
		Eventually(func() float64 {
			before := framework.Scrape(c.Diagnostics).Sum(asked)
			Expect(f.Status(g.HTTP, f.MustMint(g.HTTPS))).To(Equal(200))
			return framework.Scrape(c.Diagnostics).Sum(asked) - before
		}, patience, 100*time.Millisecond).Should(BeZero())
		warm := f.MustMint(g.HTTPS)
		Eventually(func() float64 { // requests carry the figures of the token cache to Envoy, at most once a second
			Expect(f.Status(g.HTTP, warm)).To(Equal(200))
			return framework.Scrape(status).Sum("envoy_meshgate_introspections_total") - framework.Scrape(c.Diagnostics).Sum(asked)
		}, patience, 100*time.Millisecond).Should(BeZero())
		settled(c)
		atPlane, atNode := framework.Scrape(c.Diagnostics), framework.Scrape(status)

		first := f.MustMint(g.HTTPS)
		f.MustMint(g.HTTPS)
		f.MustMint(g.HTTPS)
		Expect(token(url.Values{"grant_type": {"client_credentials"}, "client_id": {framework.ClientID}, "client_secret": {"wrong"}})).To(Equal(400))
		Expect(token(url.Values{"grant_type": {"client_credentials"}, "client_id": {framework.ClientID}, "client_secret": {"wrong"}})).To(Equal(400))
		Expect(token(url.Values{"grant_type": {"a-word-of-the-clients"}, "client_id": {framework.ClientID}, "client_secret": {framework.ClientSecret}})).To(Equal(400))
		for range 5 {
			Expect(f.Status(g.HTTP, first)).To(Equal(200))
		}
		for range 4 {
			Expect(f.Status(g.HTTP, "")).To(Equal(401))
		}
		for _, unknown := range []string{"nobody-has-issued-this", "nor-this"} {
			Expect(f.Status(g.HTTP, unknown)).To(Equal(401))
		}
		for range 2 {
			f.Must(200, http.MethodGet, "/services/api", nil)
		}
		for range 3 {
			f.Must(404, http.MethodGet, "/services/none", nil)
		}
		f.Must(204, http.MethodDelete, "/oauth2_tokens/"+first, nil)
		Expect(f.Status(g.HTTP, first)).To(Equal(401))
		f.Must(200, http.MethodPatch, "/services/api", map[string]any{"retries": 3})
		settled(c)

		now := framework.Scrape(c.Diagnostics)
		plane := func(family string, labels ...string) float64 {
			return now.Sum(family, labels...) - atPlane.Sum(family, labels...)
		}
		Expect(plane("meshgate_oauth_tokens_issued_total")).To(BeEquivalentTo(3))
		Expect(plane("meshgate_oauth_tokens_issued_total", "grant", "client_credentials")).To(BeEquivalentTo(3))
		Expect(plane("meshgate_oauth_refusals_total")).To(BeEquivalentTo(3))
		Expect(plane("meshgate_oauth_refusals_total", "endpoint", "token", "grant", "client_credentials", "reason", "invalid_client")).To(BeEquivalentTo(2))
		Expect(plane("meshgate_oauth_refusals_total", "endpoint", "token", "grant", "other", "reason", "unsupported_grant_type")).To(BeEquivalentTo(1))
		const requests = "http_server_request_duration_seconds"
		Expect(plane(requests, "server", "admin")).To(BeEquivalentTo(7))
		Expect(plane(requests, "server", "admin", "http_request_method", "GET", "http_response_status_code", "200")).To(BeEquivalentTo(2))
		Expect(plane(requests, "server", "admin", "http_request_method", "GET", "http_response_status_code", "404")).To(BeEquivalentTo(3))
		Expect(plane(requests, "server", "admin", "http_request_method", "DELETE", "http_response_status_code", "204")).To(BeEquivalentTo(1))
		Expect(plane(requests, "server", "admin", "http_request_method", "PATCH", "http_response_status_code", "200")).To(BeEquivalentTo(1))
		Expect(plane(requests, "server", "data_plane", "http_route", "/oauth2/token", "http_response_status_code", "200")).To(BeEquivalentTo(3))
		Expect(plane(requests, "server", "data_plane", "http_route", "/oauth2/token", "http_response_status_code", "400")).To(BeEquivalentTo(3))
		Expect(plane(asked, "result", "unknown")).To(BeEquivalentTo(3), "two that nobody issued, and the one that was revoked")
		more := plane(asked) - 3
		Expect(plane("meshgate_revocations_total")).To(BeEquivalentTo(1))
		Expect(plane("meshgate_revocation_duration_seconds", "result", "confirmed")).To(BeEquivalentTo(1))
		Expect(plane("meshgate_store_operation_duration_seconds", "result", "failed")).To(BeZero())
		revisions := plane("meshgate_store_revision")
		Expect(revisions).To(BeEquivalentTo(2), "a revocation and a change of a service")
		for _, family := range []string{"meshgate_feed_lag_seconds", "meshgate_publish_duration_seconds", "meshgate_convergence_duration_seconds"} {
			Expect(plane(family)).To(Equal(revisions), family)
		}
		Expect(plane("meshgate_convergence_skipped_total")).To(BeZero())
		Expect(plane("meshgate_xds_pushes_total")).To(Equal(plane("meshgate_xds_acknowledgements_total")))
		Expect(plane("meshgate_xds_pushes_total")).To(BeNumerically(">", 0))
		Expect(plane("meshgate_xds_rejections_total")).To(BeZero())
		Expect(plane("meshgate_panics_recovered_total")).To(BeZero())
		Expect(now.Sum("meshgate_build_info", "component", "control-plane")).To(BeEquivalentTo(1))
		Expect(now.Sum("meshgate_links")).To(BeEquivalentTo(1))

		page := framework.Scrape(status)
		node := func(family string, labels ...string) float64 {
			return page.Sum(family, labels...) - atNode.Sum(family, labels...)
		}
		const answers = "envoy_http_downstream_rq_xx"
		plain, tls := []string{"envoy_http_conn_manager_prefix", "gateway_http"}, []string{"envoy_http_conn_manager_prefix", "gateway_https"}
		Expect(node(answers, append(plain, "envoy_response_code_class", "2")...)).To(BeEquivalentTo(5))
		Expect(node(answers, append(plain, "envoy_response_code_class", "4")...)).To(BeEquivalentTo(7))
		Expect(node(answers, append(tls, "envoy_response_code_class", "2")...)).To(BeEquivalentTo(3))
		Expect(node(answers, append(tls, "envoy_response_code_class", "4")...)).To(BeEquivalentTo(3))
		Expect(node(answers, append(plain, "envoy_response_code_class", "5")...)).To(BeZero())
		Expect(node("envoy_meshgate_allowed_total")).To(BeEquivalentTo(5))
		Expect(node("envoy_meshgate_issued_total")).To(BeEquivalentTo(6), "three tokens, and three requests that the OAuth server refused")
		Expect(node("envoy_meshgate_refused_total")).To(BeEquivalentTo(7))
		Expect(node("envoy_meshgate_refused_total", "reason", "token_missing")).To(BeEquivalentTo(4))
		Expect(node("envoy_meshgate_refused_total", "reason", "token_unknown")).To(BeEquivalentTo(2))
		Expect(node("envoy_meshgate_refused_total", "reason", "token_revoked")).To(BeEquivalentTo(1))
		Expect(page.Sum("meshgate_build_info", "component", "agent")).To(BeEquivalentTo(1))
		Expect(page.Sum("meshgate_agent_control_plane_connected")).To(BeEquivalentTo(1))
		Expect(page.Sum("meshgate_agent_envoy_scrape_success")).To(BeEquivalentTo(1))
		Expect(page.Sum("meshgate_agent_envoy_scrape_dropped_lines")).To(BeZero())
		Expect(page.Sum("meshgate_agent_token_expiry_timestamp_seconds")).To(BeNumerically(">", time.Now().Unix()))

		By("looking up every family that a dashboard or an alert reads")
		// Requests carry the figures of the token cache to Envoy, at most once a second, and
		// histograms appear when Envoy has merged those of its workers.
		Eventually(func() []string {
			Expect(f.Status(g.HTTP, "nor-this")).To(Equal(401))
			now, page = framework.Scrape(c.Diagnostics), framework.Scrape(status)
			if page.Sum(late) > 0 { // on a busy machine that happens
				return append(missing(now, page), late)
			}
			return missing(now, page)
		}, patience, 100*time.Millisecond).Should(ConsistOf(unhappened))
		Eventually(func() float64 {
			Expect(f.Status(g.HTTP, "nor-this")).To(Equal(401))
			now, page = framework.Scrape(c.Diagnostics), framework.Scrape(status)
			return node("envoy_meshgate_introspections_total") - plane(asked)
		}, patience, 100*time.Millisecond).Should(BeZero())
		Expect(more).To(BeNumerically("<=", node(late)), "tokens are in Redis before they are answered: only when that is late somebody asks")
		Expect(page.Sum("envoy_meshgate_linked")).To(BeEquivalentTo(1))
		Expect(page.Sum("envoy_meshgate_leased")).To(BeEquivalentTo(1))

		By("looking up at Envoy itself what has not happened")
		text, err := framework.EnvoyAdmin(g.StateDir, "/stats/prometheus")
		Expect(err).NotTo(HaveOccurred())
		all, err := framework.ParseMetrics(text)
		Expect(err).NotTo(HaveOccurred())
		for _, family := range unhappened {
			Expect(all).To(HaveKey(family))
		}
	})

	It("are the agent's alone while Envoy hangs, and nobody waits for long", func() {
		pid := framework.RunningEnvoy(g.StateDir)
		Expect(syscall.Kill(pid, syscall.SIGSTOP)).To(Succeed())
		DeferCleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
		begun := time.Now()
		page := framework.Scrape(status)
		Expect(time.Since(begun)).To(BeNumerically("<", 9*time.Second))
		Expect(page.Sum("meshgate_agent_envoy_scrape_success")).To(BeZero())
		Expect(page.Sum("meshgate_agent_envoy_up")).To(BeEquivalentTo(1), "it runs")
		Expect(page).NotTo(HaveKey("envoy_server_live"))
		Expect(syscall.Kill(pid, syscall.SIGCONT)).To(Succeed())
		Eventually(func() framework.Metrics { return framework.Scrape(status) }, patience, 100*time.Millisecond).Should(HaveKey("envoy_server_live"))
	})
})

// settled waits until all commits were measured.
func settled(c *framework.ControlPlane) {
	GinkgoHelper()
	Eventually(func() bool {
		m := framework.Scrape(c.Diagnostics)
		n := m.Sum("meshgate_convergence_duration_seconds")
		return n > 0 && n == m.Sum("meshgate_feed_lag_seconds") && m.Sum("meshgate_xds_proxies_waiting") == 0 &&
			m.Sum("meshgate_xds_published_revision") == m.Sum("meshgate_store_revision")
	}, 30*time.Second, 20*time.Millisecond).Should(BeTrue())
}

var (
	// elsewhere are families that dashboards and alerts read and that no page has here,
	// with the reason.
	elsewhere = map[string]string{
		"up": "Prometheus makes it itself",
		"meshgate_backup_last_success_timestamp_seconds": "only with backup.every",
	}
	// unhappened count what does not happen to a gateway in order, and are on its page from
	// the first time on. Envoy shows them to whoever asks for everything.
	unhappened = []string{
		"envoy_meshgate_cache_evictions_total", "envoy_meshgate_redis_errors_total", "envoy_meshgate_introspection_errors_total",
		"envoy_meshgate_lookups_rejected_total", "envoy_meshgate_stale_served_total",
	}
)

// missing lists the families that a dashboard or an alert reads and that are on none of
// some pages: their panel would stay empty for ever, their alert would never fire. Those
// that are elsewhere must be on none.
func missing(pages ...framework.Metrics) (out []string) {
	GinkgoHelper()
	all, err := telemetrytest.Expressions(filepath.Join(framework.Root(), "docs", "operations"))
	Expect(err).NotTo(HaveOccurred())
	series := regexp.MustCompile(`_(bucket|sum|count)$`)
	has := func(name string) bool {
		base := series.ReplaceAllString(name, "")
		return slices.ContainsFunc(pages, func(m framework.Metrics) bool {
			return m[name] != nil || m[base].GetType() == dto.MetricType_HISTOGRAM
		})
	}
	for _, e := range all {
		for _, name := range telemetrytest.Families(e.Expr) {
			if has(name) == (elsewhere[name] != "") {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
