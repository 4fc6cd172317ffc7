package gateway_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

var _ = Describe("metrics", func() {
	const patience = 30 * time.Second
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
		Expect(plane("meshgate_introspection_duration_seconds", "result", "unknown")).To(BeEquivalentTo(3), "two that nobody issued, and the one that was revoked")
		Expect(plane("meshgate_introspection_duration_seconds")).To(BeEquivalentTo(3), "tokens are in Redis before they are answered")
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
		Expect(page.Sum("meshgate_build_info", "component", "agent")).To(BeEquivalentTo(1))
		Expect(page.Sum("meshgate_agent_control_plane_connected")).To(BeEquivalentTo(1))
		Expect(page.Sum("meshgate_agent_envoy_scrape_success")).To(BeEquivalentTo(1))
		Expect(page.Sum("meshgate_agent_envoy_scrape_dropped_lines")).To(BeZero())
		Expect(page.Sum("meshgate_agent_token_expiry_timestamp_seconds")).To(BeNumerically(">", time.Now().Unix()))
	})

	It("of Envoy that dashboards and alerts read are there", func() {
		Expect(f.Status(g.HTTP, f.MustMint(g.HTTPS))).To(Equal(200))
		names := envoyFamilies()
		Expect(len(names)).To(BeNumerically(">", 5))
		// Histograms appear when Envoy has merged those of its workers.
		Eventually(func() (missing []string) {
			page := framework.Scrape(status)
			for _, name := range names {
				if page[name] == nil {
					missing = append(missing, name)
				}
			}
			return missing
		}, patience, 100*time.Millisecond).Should(BeEmpty())
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

// envoyFamilies are the statistics of Envoy that dashboards and alerts read.
func envoyFamilies() []string {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(framework.Root(), "docs", "operations", "dashboards", "*.json"))
	Expect(err).NotTo(HaveOccurred())
	// A label of Envoy's begins like a statistic, and is followed by what it is compared with.
	name := regexp.MustCompile(`\b(envoy_[a-z0-9_]+)(\{|\[|\)| |\\?"|$)`)
	var out []string
	for _, file := range append(files, filepath.Join(framework.Root(), "docs", "operations", "alerts.yaml")) {
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		for _, m := range name.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(m[1], "envoy_meshgate_") {
				continue // the filter's appear with what they count
			}
			if label := slices.Contains([]string{"envoy_cluster_name", "envoy_response_code_class", "envoy_http_conn_manager_prefix"}, m[1]); !label {
				out = append(out, regexp.MustCompile(`_bucket$`).ReplaceAllString(m[1], ""))
			}
		}
	}
	out = append(out, "envoy_listener_ssl_certificate_expiration_unix_time_seconds", "envoy_cluster_ssl_certificate_expiration_unix_time_seconds")
	slices.Sort(out)
	return slices.Compact(out)
}
