package accesslog_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// statistics holds Envoy's own counters against what was asked.
func statistics(w *world) {
	GinkgoHelper()
	admin := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(w.c.StateDir, "run", "gateway-1", "admin.sock"))
	}}}
	// In the order in which they happen: the log is behind.
	w.about("path", "/open/..%2f/a")
	refused, allowed := 0, 0
	for _, l := range w.lines() {
		switch {
		case l["decision"] == "allowed":
			allowed++
		case l["reason"] == "token_revoked":
			refused++
		}
	}
	page := func() string {
		r, err := framework.Do(admin, http.MethodGet, "http://envoy/stats/prometheus", nil, "")
		Expect(err).NotTo(HaveOccurred())
		return r.Body
	}
	text := page()
	Expect(text).To(ContainSubstring(fmt.Sprintf("\nenvoy_meshgate_allowed_total{} %d\n", allowed)))
	Expect(text).To(ContainSubstring(fmt.Sprintf("\nenvoy_meshgate_refused_total{reason=\"token_revoked\"} %d\n", refused)))
	Expect(text).To(MatchRegexp(`(?m)^envoy_meshgate_cache_hits_total\{\} [1-9]`))
	Expect(text).To(MatchRegexp(`envoy_cluster_upstream_rq_total\{envoy_cluster_name="safe_[0-9a-f]{8}"`))
	// A lease that a busy machine was late to renew is there again soon.
	Eventually(page, patience, 50*time.Millisecond).Should(MatchRegexp(`(?m)^envoy_meshgate_leased\{\} 1$`))
}

var _ = Describe("the file of the access log", func() {
	It("is put aside when it is large, and nothing is lost", func() {
		w := newWorld("--access-log-max-size", "65536", "--access-log-keep", "50")
		w.service("open")
		w.Converged()
		const requests = 300
		all := func() (out []line) {
			files, err := filepath.Glob(w.file + "*")
			Expect(err).NotTo(HaveOccurred())
			for _, file := range files {
				if raw, err := os.ReadFile(file); err == nil { // it may be called something else by now
					out = append(out, read(string(raw))...)
				}
			}
			return out
		}
		seen := func(prefix string) (n int) {
			for _, l := range all() {
				if strings.HasPrefix(l.text("path"), prefix) {
					n++
				}
			}
			return n
		}
		for round := range 2 {
			for i := range requests {
				w.call("GET", fmt.Sprintf("/open/%d/%d", round, i))
			}
			Eventually(func() int { return seen(fmt.Sprintf("/open/%d/", round)) }, patience, 50*time.Millisecond).Should(Equal(requests))
		}
		Expect(w.file + ".2").To(BeAnExistingFile())
		info, err := os.Stat(w.file)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode().Perm()).To(BeEquivalentTo(0o600))
		Expect(seen("/open/")).To(Equal(2 * requests))
	})

	It("has a share of what succeeded, and all of the rest", func() {
		w := newWorld("--access-log-sample", "0")
		w.service("open")
		w.Converged()
		for range 20 {
			Expect(w.call("GET", "/open/good").Status).To(Equal(200))
		}
		Expect(w.call("GET", "/bad").Status).To(Equal(404))
		w.about("path", "/bad")
		for _, l := range w.lines() {
			Expect(l["path"]).NotTo(Equal("/open/good"))
		}
	})

	It("may have another format, but none that shows a credential", func() {
		w := newWorld("--access-log-format", `{"who":{"asks":"%MESHGATE(consumer)%"},"for":"%MESHGATE(path)% at %MESHGATE(service)%"}`)
		w.service("open")
		w.Converged()
		w.call("GET", "/open/a?token=b")
		Eventually(func() string {
			raw, _ := os.ReadFile(w.file)
			return string(raw)
		}, patience, 20*time.Millisecond).Should(ContainSubstring(`{"for":"/open/a at open","who":{"asks":null}}`))
		c := framework.NewControlPlane("run", "--access-log-format", `{"a":"%REQ(AUTHORIZATION)%"}`)
		c.Launch()
		Eventually(c.Running, patience).Should(BeFalse())
		Expect(c.Output()).To(ContainSubstring("accessLog.format: a: %REQ(AUTHORIZATION)%: this header may hold a credential"))
	})

	It("is standard output unless it is set, one JSON object a line", func() {
		c := framework.NewControlPlane("standalone").Start()
		_, err := framework.Do(http.DefaultClient, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/nowhere", c.HTTP), nil, "")
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() (found []line) {
			for text := range strings.Lines(c.Output()) {
				if strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}\n") {
					found = append(found, read(text)...)
				}
			}
			return found
		}, patience, 50*time.Millisecond).Should(ContainElement(And(HaveKeyWithValue("path", "/nowhere"), HaveKeyWithValue("reason", "no_route"))))
	})
})
